"""A finished run goes into one file, without secrets, and comes back as it happened."""

import copy
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, SQLModel, select

from app.access import PROJECT, WORKSPACE, Access
from app.cassette import export, load
from data import replay
from data.cassette import MOST_BYTES, Cassette, CassetteRefused
from data.home import Home, open_home
from data.recording import Cleaner
from data.store import Store
from data.tables import (
    Account,
    Evaluation,
    Event,
    GatewayModel,
    Live,
    ModelCall,
    Round,
    Run,
    Sample,
    Steer,
    Step,
    Task,
)
from data.tracks import TRACKS
from tests import sample_run

RUN, RUNNING = "arith-carry-1", "arith-carry-2"
LABEL = {"of": RUN, "speed": 60.0}
CANARY = "CANARY-9f27c1d4-do-not-leak"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with a finished run, whose rows have all that must not leave it."""
    made = open_home(tmp_path_factory.mktemp("home"))
    store = Store(made.database)
    Access(store, made).ensure_owner()
    sample_run.fill(store)
    store.write(lambda session: _plant(session, made))
    store.close()
    yield made


def _plant(session: Session, home: Home) -> None:
    """Secrets, paths and sealed tasks where a careless engine or person could have put them."""
    run = session.get_one(Run, RUN)
    run.secret, run.created_at = f"{CANARY}-run", sample_run.ago(minutes=100)
    run.brief = f"Use key sk-{'a1' * 12} and Bearer {CANARY}-brief, see {home.path}/runs/x."
    session.add(
        GatewayModel(
            name="planner",
            key_env="PLANNER_VARIABLE",
            input_micro_per_mtok=1,
            output_micro_per_mtok=1,
        )
    )
    said = f"{CANARY}-env {CANARY}-model {home.owner_key.read_text()} in /home/ann/secret/x.py"
    sample_run.event(session, RUN, 13, "message", said)
    for split in ("dev", "held_out", "guard"):
        task = Task(id=f"{split}-task", project_id=PROJECT, run=RUN, split=split, family="sums")
        task.family_version, task.number, task.stratum = "1", 1, "one carry"
        task.prompt, task.canonical_key = f"{split}: 1 + 2?", split
        task.template_id, task.worked = "t", f"SEALED-{split}"
        session.add(task)
        found = session.exec(
            select(Evaluation).where(Evaluation.run == RUN, Evaluation.split == split)
        ).first()
        assert found is not None
        found.protocol = {"tasks": [f"SEALED-{split}-list"]}
        sample = Sample(evaluation=found.id, project_id=PROJECT, run=RUN, task=task.id)
        sample.family, sample.stratum, sample.score = "sums", "one carry", 1.0
        sample.text, sample.reason = f"SEALED-{split}-answer", "right"
        session.add(sample)
    call = session.exec(select(ModelCall).where(ModelCall.run == RUN)).first()
    assert call is not None
    call.text, call.usage = "SEALED-call", {"input_tokens": 7, "raw": {"id": f"{CANARY}-raw"}}
    session.add(call)


@pytest.fixture(scope="module")
def file(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cassette of the finished run."""
    made = tmp_path_factory.mktemp("out") / "carry.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOME_API_KEY", f"{CANARY}-env")
        patch.setenv("PLANNER_VARIABLE", f"{CANARY}-model")
        said = export(home, RUN, made)
    assert "rows" in said and "play" in said
    return made


def test_no_secret_key_sealed_task_or_path_is_in_the_file(home: Home, file: Path) -> None:
    text = file.read_text()
    assert "CANARY" not in text
    for secret in (home.owner_key.read_text(), home.blind_key.read_text()):
        assert secret.strip() not in text
    assert "sk-a1a1" not in text and "/home/ann" not in text and str(home.path) not in text
    assert "SEALED-dev" in text  # which people may read
    for sealed in ("held_out", "guard", "call"):
        assert f"SEALED-{sealed}" not in text
    assert "SEALED-dev-list" not in text
    assert "[removed]" in text and "PAWL_HOME/runs/x" in text


@pytest.mark.parametrize(
    "secret",
    [
        "AIzaSyD-abcdefghijklmnopqrstuvwxyz012345",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "file:///home/ann/x.py",
    ],
)
def test_what_looks_like_a_key_or_a_path_is_taken_out(secret: str) -> None:
    clean = Cleaner(set(), Path("/nowhere")).text(f"see {secret}, and https://a.example/home/b")
    assert secret not in clean and "/home/ann" not in clean
    assert clean.endswith(", and https://a.example/home/b")


def test_what_has_not_ended_or_is_not_there_is_no_cassette(home: Home, tmp_path: Path) -> None:
    with pytest.raises(CassetteRefused, match="is running: a cassette is made once it has ended"):
        export(home, RUNNING, tmp_path / "a")
    with pytest.raises(CassetteRefused, match="there is no run nothing"):
        export(home, "nothing", tmp_path / "a")
    with pytest.raises(CassetteRefused, match="has no database yet"):
        export(Home(path=tmp_path), RUN, tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_kept(home: Home, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    with pytest.raises(CassetteRefused, match="choose another name"):
        export(home, RUN, kept)
    assert kept.read_text() == "mine"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Store]:
    """The database of a fresh home."""
    made = open_home(tmp_path / "temporary")
    store = Store(made.database)
    Access(store, made).ensure_owner()
    yield store
    store.close()


def test_played_to_its_end_every_row_is_as_it_was_recorded(file: Path, empty: Store) -> None:
    cassette = load(file)
    replay.play(empty, replay.frames(cassette, LABEL), 1e9)
    for name, track in TRACKS.items():
        wanted = copy.deepcopy(cassette.rows[name])
        if name == "run":
            wanted[0]["config"]["replay"] = LABEL
        assert _sorted(_all(empty, track.table)) == _sorted(wanted), name
    (run,) = _all(empty, Run)
    assert run["state"] == "finished" and run["config"]["replay"] == LABEL
    (live,) = _all(empty, Live) or [{"phase": None}]
    assert live["phase"] is None


def test_half_way_nothing_is_known_that_was_not_known_then(file: Path, empty: Store) -> None:
    cassette = load(file)
    frames = replay.frames(cassette, LABEL)
    (first,) = [row for row in cassette.rows["round"] if row["number"] == 1]
    start = cassette.rows["run"][0]["created_at"]
    assert frames[0].second == 0 and frames[0].row["state"] == "starting"
    assert [frame.second for frame in frames] == sorted(frame.second for frame in frames)
    before = [
        frame
        for frame in frames
        if not (frame.table is Round and frame.row["outcome"])
        and not (frame.table is Run and frame.row["state"] == "finished")
    ]
    replay.play(empty, before, 1e9)
    for row in _all(empty, Round):
        assert row["outcome"] is row["decision"] is row["reason"] is None
        assert row["evidence"] == {}
    (run,) = _all(empty, Run)
    assert run["state"] == "running" and run["reason"] is None and run["ended_at"] is None
    assert first["decision"] == "promote" and start


def test_money_steps_and_steers_come_at_their_own_times(file: Path) -> None:
    frames = replay.frames(load(file), LABEL)
    for table, column, was, then in (
        (Steer, "status", "queued", "delivered"),
        (Step, "status", "intent", "done"),
        (ModelCall, "status", "sent", "answered"),
    ):
        rows = [frame for frame in frames if frame.table is table]
        first = rows[0].key
        told = [frame.row[column] for frame in rows if frame.key == first]
        assert told == [was, then], table
    assert [f.row["model_settled"] for f in frames if f.table is Account][-1] == 1_050_000
    events = [frame.second for frame in frames if frame.table is Event]
    assert len(events) == 13 and events == sorted(events)


def test_speed_is_how_much_faster_than_it_was(file: Path, empty: Store) -> None:
    frames = replay.frames(load(file), LABEL)
    assert frames[-1].second > 3600
    run = frames[0]
    began = time.monotonic()
    replay.play(empty, [run, replay.Frame(second=60.0, table=Run, row=run.row)], 60.0)
    assert 1.0 <= time.monotonic() - began < 50, "a minute is played in a second"


def test_a_replay_ends_when_it_is_asked_to(file: Path, empty: Store) -> None:
    stop = threading.Event()
    given = (empty, replay.frames(load(file), LABEL), 1.0, stop)
    thread = threading.Thread(target=replay.play, args=given)
    thread.start()
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_long_rest_is_played_as_a_short_one(file: Path) -> None:
    cassette = load(file)
    at = cassette.rows["event"][-1]["at"]
    cassette.rows["run"][0]["ended_at"] = f"2099{at[4:]}"
    last, before = [f.second for f in reversed(replay.frames(cassette, LABEL)) if f.table is Run][
        :2
    ]
    assert 0 < last - before <= replay.LONGEST_PAUSE * 20


# Files from elsewhere


def _changed(file: Path, tmp_path: Path, change: Any) -> Path:
    """The cassette with its lines changed, and a hash that fits them."""
    lines = file.read_text().splitlines()[:-1]
    parsed = [json.loads(line) for line in lines]
    change(parsed)
    body = "".join(json.dumps(one) + "\n" for one in parsed).encode()
    bad = tmp_path / "bad.jsonl"
    last = json.dumps({"sha256": hashlib.sha256(body).hexdigest()})
    bad.write_bytes(body + last.encode() + b"\n")
    return bad


def _first(lines: list[Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one[1] for one in lines[1:] if one[0] == name)
    return found


WRONG = {
    "another version": (lambda lines: lines[0].update(version=2), "version 2"),
    "another schema": (lambda lines: lines[0].update(schema=99), "schema 99"),
    "no cassette": (lambda lines: lines[0].update(format="x"), "is not a cassette"),
    "a run id that is a path": (lambda lines: lines[0].update(run="../x"), "which run it is of"),
    "a table of people": (
        lambda lines: lines.append(["user", {"id": "eve", "name": "eve", "role": "admin"}]),
        "'user' is not a table of a cassette",
    ),
    "an unknown column": (lambda lines: _first(lines, "round").update(x=1), "no column 'x'"),
    "a row of another run": (
        lambda lines: _first(lines, "event").update(run="other"),
        "a row of another run",
    ),
    "a wrong type": (lambda lines: _first(lines, "event").update(seq="1"), "event.seq"),
    "a wrong record": (lambda lines: _first(lines, "round").update(plan=[]), "round.plan"),
    "no time": (
        lambda lines: _first(lines, "event").update(at="yesterday"),
        "event.at: not a time",
    ),
    "a number too large": (lambda lines: _first(lines, "event").update(seq=2**70), "too large"),
    "half a character": (lambda lines: _first(lines, "event").update(text="\ud800"), "surrogates"),
    "the same row twice": (
        lambda lines: lines.append(["event", _first(lines, "event")]),
        "do not fit together",
    ),
    "a row that refers to none": (
        lambda lines: _first(lines, "version").update(harness="none"),
        "refers to one that is not there",
    ),
    "a run that goes on": (
        lambda lines: _first(lines, "run").update(state="running"),
        "one run that has ended",
    ),
    "no run": (lambda lines: lines.remove(lines[1]), "one run that has ended"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_does_not_fit_is_refused_with_what_does_not(
    file: Path, tmp_path: Path, what: str
) -> None:
    change, said = WRONG[what]
    with pytest.raises(CassetteRefused, match=said):
        load(_changed(file, tmp_path, change))


def test_a_cut_changed_huge_or_missing_file_is_refused(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    bad = tmp_path / "bad"
    for content, said in (
        (b"", "cut off or was changed"),
        (whole[: len(whole) // 2], "cut off or was changed"),
        (whole.replace(b"single carries", b"double carries", 1), "cut off or was changed"),
    ):
        bad.write_bytes(content)
        with pytest.raises(CassetteRefused, match=said):
            load(bad)
    with open(bad, "wb") as sparse:
        sparse.truncate(MOST_BYTES + 1)
    with pytest.raises(CassetteRefused, match="larger than 64 MiB"):
        load(bad)
    with pytest.raises(CassetteRefused, match="cannot be read"):
        load(tmp_path / "nothing")


def test_nested_beyond_reason_is_refused(file: Path, tmp_path: Path) -> None:
    head = file.read_text().splitlines()[0]
    body = f'{head}\n["round", {{"plan": {"[" * 100_000}{"]" * 100_000}}}]\n'.encode()
    bad = tmp_path / "deep"
    last = json.dumps({"sha256": hashlib.sha256(body).hexdigest()})
    bad.write_bytes(body + last.encode() + b"\n")
    with pytest.raises(CassetteRefused, match="nested too deeply"):
        load(bad)


def test_rows_come_to_the_project_that_looks_whatever_the_file_says(
    file: Path, tmp_path: Path
) -> None:
    foreign = _changed(
        file, tmp_path, lambda lines: _first(lines, "run").update(project_id="prj_other")
    )
    cassette: Cassette = load(foreign)
    (run,) = cassette.rows["run"]
    assert (run["project_id"], run["workspace_id"]) == (PROJECT, WORKSPACE)


def _all(store: Store, table: type[SQLModel]) -> list[dict[str, Any]]:
    with store.read() as session:
        return [row.model_dump(mode="json") for row in session.exec(select(table))]


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)
