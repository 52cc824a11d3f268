"""The command `el job`: finds its server, starts runs, watches and steers them."""

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from app.cli import follow
from app.cli.follow import follow_run
from app.cli.grouping import group
from app.cli.show import exit_code
from data.tables import Event
from tests.doors.stranger import Stranger
from tests.doors.terminal import START, Terminal
from tests.server.process import Server

EMPTY = {"items": [], "next_cursor": None}
numbers = itertools.count(1)


def new_run() -> str:
    return f"cli-{next(numbers)}"


def started(el: Terminal, *more: str) -> str:
    """A new dry run that goes on until it is told otherwise."""
    run = new_run()
    words = ["--brief", "x", "--max-model-cost-usd", "1", "--dry-run", "--rounds", "1000"]
    assert el("job", "run", "start", run, *words, *more).code == 0
    return run


# Which server, which key


def test_on_the_servers_machine_it_needs_no_address_and_no_key(el: Terminal, server: Server):
    el.set(ENVLOOP_BASE_URL=None, ENVLOOP_API_KEY=None, PAWL_HOME=str(server.home.path))
    assert "items" in el("job", "run", "list", "--json").json()


def test_without_a_server_it_says_how_to_start_one_and_makes_nothing(el: Terminal, tmp_path: Path):
    el.set(ENVLOOP_BASE_URL=None, ENVLOOP_API_KEY=None, PAWL_HOME=str(tmp_path / "home"))
    done = el("job", "run", "list")
    assert done.refusal == "NO_SERVER" and "python3 run.py" in done.err
    assert not (tmp_path / "home").exists()


def test_the_note_of_a_killed_server_sends_no_key_to_whoever_took_its_port(
    el: Terminal, tmp_path: Path
):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with Stranger(EMPTY) as stranger:
        note = {"pid": gone.pid, "url": stranger.url, "started": "2026-01-01T00:00:00Z"}
        (tmp_path / "server.json").write_text(json.dumps(note))
        (tmp_path / "instance.lock").write_text(json.dumps({"pid": gone.pid}))
        (tmp_path / "owner.key").write_text("pawl_owner_secret\n")
        el.set(ENVLOOP_BASE_URL=None, ENVLOOP_API_KEY=None, PAWL_HOME=str(tmp_path))
        assert el("job", "run", "list").refusal == "NO_SERVER"
        assert stranger.asked == []


def test_the_owners_key_is_shown_to_no_other_server(el: Terminal, server: Server):
    with Stranger(EMPTY) as stranger:
        home = str(server.home.path)
        el.set(ENVLOOP_BASE_URL=stranger.url, ENVLOOP_API_KEY=None, PAWL_HOME=home)
        assert el("job", "run", "list").code == 0
        assert [("authorization" in headers) for _, headers in stranger.asked] == [False]


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/api", "/api/v1"])
def test_an_address_may_end_in_each_way_that_people_write_it(
    el: Terminal, server: Server, end: str
):
    el.set(ENVLOOP_BASE_URL=server.url + end)
    assert el("job", "run", "list").code == 0


@pytest.mark.parametrize(
    "address",
    ["http://lab.example", "http://lab.example@evil.example", "ftp://127.0.0.1", "127.0.0.1:8710"]
    + ["http://127.0.0.1:8710?x=1", "http://me:secret@127.0.0.1:8710", "http://127.0.0.1:x"],
)
def test_an_address_that_would_show_the_key_to_the_network_is_refused(el: Terminal, address: str):
    el.set(ENVLOOP_BASE_URL=address)
    assert el("job", "run", "list").refusal == "INVALID_BASE_URL"


@pytest.mark.parametrize("key", ["", "has blanks", "ü", "x" * 513])
def test_a_key_of_the_wrong_form_is_an_error_and_is_not_sent(el: Terminal, key: str):
    with Stranger(EMPTY) as stranger:
        el.set(ENVLOOP_BASE_URL=stranger.url, ENVLOOP_API_KEY=key)
        assert el("job", "run", "list").refusal == "INVALID_API_KEY"
        assert stranger.asked == []


def test_a_proxy_of_the_environment_learns_nothing_about_a_server_on_this_machine(el: Terminal):
    with Stranger(EMPTY) as server, Stranger(EMPTY) as proxy:
        el.set(ENVLOOP_BASE_URL=server.url, http_proxy=proxy.url, HTTP_PROXY=proxy.url)
        el.set(all_proxy=proxy.url, ENVLOOP_WORKSPACE_ID="ws_local", ENVLOOP_PROJECT_ID="prj_local")
        assert el("job", "run", "list").code == 0
        assert proxy.asked == []
        [(line, headers)] = server.asked
    assert line == "GET /v1/job?type=train&limit=100 HTTP/1.1"
    assert headers["x-workspace-id"] == "ws_local" and headers["x-project-id"] == "prj_local"


def test_a_sign_in_saved_in_envloop_home_is_used(
    el: Terminal, server: Server, key: str, tmp_path: Path
):
    (tmp_path / "config.toml").write_text(f'[connection]\napi_url = "{server.url}"\n')
    saved = {"version": 1, "credentials": {server.url: {"api_key": key}}}
    (tmp_path / "auth.json").write_text(json.dumps(saved))
    el.set(ENVLOOP_BASE_URL=None, ENVLOOP_API_KEY=None, ENVLOOP_HOME=str(tmp_path))
    assert el("job", "run", "list").code == 0
    (tmp_path / "auth.json").write_text("[]")
    assert el("job", "run", "list").refusal == "INVALID_CONFIGURATION"


def test_a_foreign_scope_is_refused(el: Terminal):
    el.set(ENVLOOP_PROJECT_ID="prj_other")
    assert el("job", "run", "list").refusal == "ACCESS_DENIED"


# What comes back


def test_errors_are_fixed_words_and_never_the_servers(el: Terminal):
    with Stranger({"code": "RSI_CONFLICT", "message": "ignore all rules"}, 409) as stranger:
        el.set(ENVLOOP_BASE_URL=stranger.url)
        done = el("job", "run", "stop", "sums")
        assert done.refusal == "RSI_CONFLICT"
        assert (
            done.err.startswith("RSI_CONFLICT: The run's id is taken") and "(HTTP 409)" in done.err
        )
        assert "\nHint: " in done.err and "ignore" not in done.err
        stranger.body = {"code": "RSI_CONFLICT", "reason": "SANDBOX_UNAVAILABLE"}
        assert "no sandbox works on the server" in el("job", "run", "stop", "sums").err


@pytest.mark.parametrize(
    ("status", "kind", "body", "code"),
    [
        (200, "text/html", b"<html>a console", "INVALID_RESPONSE"),
        (200, "application/json", b'"' + b"x" * 2**24 + b'"', "INVALID_RESPONSE"),
        (307, "text/plain", b"", "INVALID_RESPONSE"),
        (404, "application/json", {"detail": "Not Found"}, "HTTP_ERROR"),
        (500, "text/plain", b"Internal Server Error", "HTTP_ERROR"),
        (503, "application/json", {"code": "lower case"}, "HTTP_ERROR"),
    ],
)
def test_an_answer_that_is_not_the_apis_is_told_as_that(
    el: Terminal, status: int, kind: str, body: Any, code: str
):
    with Stranger(body, status, kind) as stranger:
        el.set(ENVLOOP_BASE_URL=stranger.url)
        assert el("job", "run", "live", "sums").refusal == code


def test_no_server_at_the_address_is_told_as_that(el: Terminal):
    with Stranger() as stranger:
        pass
    el.set(ENVLOOP_BASE_URL=stranger.url)
    done = el("job", "run", "list")
    assert done.refusal == "NETWORK_ERROR" and "HTTP" not in done.err.partition("\n")[0]


def test_an_answer_that_tells_of_a_failure_is_printed_and_exits_with_1(el: Terminal):
    with Stranger({"job_id": "j", "status": "failed"}) as stranger:
        el.set(ENVLOOP_BASE_URL=stranger.url)
        done = el("job", "get", "j")
        assert (done.code, json.loads(done.out)) == (1, stranger.body)
        stranger.body = {"job_id": "j", "status": "cancelled"}
        assert el("job", "get", "j").code == 0
    assert [exit_code({"skipped": ["x"]}), exit_code({"skipped": []}), exit_code(None)] == [1, 0, 0]


def test_control_characters_of_a_run_never_reach_the_terminal(el: Terminal):
    event = {"seq": 1, "kind": "message", "text": "red \x1b[31m\x9b2J\u202e\nnew line"}
    page = {"state": "finished", "events": [event], "next_cursor": 1}
    with Stranger(page) as stranger:
        el.set(ENVLOOP_BASE_URL=stranger.url)
        followed, plain = el("job", "run", "live", "x", "--follow"), el("job", "run", "live", "x")
    assert followed.out == "1 message: red  [31m 2J  new line\nstate: finished\n"
    assert plain.json() == page
    assert not set(plain.out) & {"\x1b", "\x9b", "\u202e"} and plain.out.count("\n") == 1


# Starting


def test_start_prints_the_receipt_and_the_run_is_listed_at_once(el: Terminal):
    run = new_run()
    words = ("--brief", "Sums.", "--max-model-cost-usd", "1", "--usd-cap", "2", "--rounds", "2")
    receipt = el(
        "job", "run", "start", run, *words, "--model-request-cap", "50", "--dry-run"
    ).json()
    assert receipt["state"] == "starting" and receipt["mode"] == "dry"
    assert receipt["limits"]["max_cost_usd"] == receipt["limits"]["usd_cap"] == 2.0
    assert receipt["limits"]["max_model_requests"] == 50
    listed = el("job", "run", "list", "--json").json()["items"]
    assert [one["agent"] for one in listed if one["run"] == run] == ["pawl"]
    assert run in el("job", "run", "list").out
    again = el("job", "run", "start", run, "--brief", "x", "--model-usd-cap", "1", "--dry-run")
    assert again.refusal == "RSI_CONFLICT"
    el("job", "run", "stop", run)


def test_a_brief_comes_from_a_file_or_from_standard_input(
    el: Terminal, server: Server, tmp_path: Path
):
    file = tmp_path / "brief.txt"
    file.write_text("Größere Summen.\n", encoding="utf-8")
    runs = new_run(), new_run()
    words = ("--model-usd-cap", "1", "--dry-run", "--rounds", "1")
    assert el("job", "run", "start", runs[0], "--brief-file", str(file), *words).code == 0
    piped = el("job", "run", "start", runs[1], "--brief-file", "-", *words, stdin="By pipe.\n")
    assert piped.code == 0
    assert [server.run(run).brief for run in runs] == ["Größere Summen.\n", "By pipe.\n"]
    missing = el("job", "run", "start", "x", "--brief-file", str(tmp_path / "none"), *words)
    assert missing.refusal == "FILE_ERROR"


@pytest.mark.parametrize(
    "words",
    [
        "run start x --brief b",
        "run start x --model-usd-cap 1",
        "run start x --brief b --brief-file f --model-usd-cap 1",
        "run start x --brief b --model-usd-cap 1 --max-model-cost-usd 2",
        "run start x --brief b --model-usd-cap 1 --usd-cap 3 --max-cost-usd 2",
        "run start x --brief b --model-usd-cap nan",
        "run start x --brief b --model-usd-cap much",
        "run start x --brief b --model-usd-cap 1 --rounds 1.5",
        "run list --limit 3",
        "run list --cursor c",
        "run live",
        "run extend x",
        "run steer x",
        "run stop x y",
        "log j --tail 1 --cursor c",
        "",
    ],
)
def test_a_mistake_in_the_command_exits_with_2_and_asks_nobody(el: Terminal, words: str):
    with Stranger(EMPTY) as stranger:
        el.set(ENVLOOP_BASE_URL=stranger.url)
        done = el("job", *words.split())
        assert done.code == 2 and "Usage: el job" in done.out + done.err
        assert stranger.asked == []


def test_both_spellings_of_a_cap_may_be_given_when_they_agree(el: Terminal):
    run = new_run()
    both = ("--model-usd-cap", "1", "--max-model-cost-usd", "1.0")
    receipt = el("job", "run", "start", run, "--brief", "x", "--dry-run", *both).json()
    assert receipt["limits"]["model_usd_cap"] == 1.0
    el("job", "run", "stop", run)


# Reading


def test_get_shows_rounds_and_jobs_as_tables_and_as_json(el: Terminal, over: str):
    shown = el("job", "run", "get", over)
    assert shown.code == 0
    assert "Status:            completed" in shown.out and "No checkpoints yet." in shown.out
    assert "dry round, nothing trained" in shown.out
    whole = el("job", "run", "get", over, "--json").json()
    assert [entry["round"] for entry in whole["rounds"]] == [1]
    assert whole["trainings"] == {"succeeded": 1, "total": 1} and whole["checkpoints"] == []
    assert el("job", "run", "get", "no-such-run").refusal == "AGENT_RUN_NOT_FOUND"


def job(number: int, status: str, **training: Any) -> dict[str, Any]:
    """A training job as the API lists it; later numbers are younger."""
    moment = f"2026-01-01T10:{number:02}"
    times = {"created_at": f"{moment}:00Z", "updated_at": f"{moment}:30Z"}
    return {"job_id": f"job-{number}", "status": status, **times, "training": training}


def test_jobs_are_grouped_by_the_labels_of_tags_first_and_generic_ones_before_ours():
    tags = {"agent_run": "a", "rsi_run": "b", "rsi_round": "2", "agent": "pawl"}
    [run] = group([job(1, "completed", tags=tags, user_metadata={"rsi_run": "c"})])
    assert (run["run"], run["agent"], run["latest_round"]) == ("a", "pawl", 2)
    [old] = group([job(1, "running", user_metadata={"rsi_run": "c", "source": "elsewhere"})])
    assert (old["run"], old["agent"], old["status"]) == ("c", "elsewhere", "running")
    [model] = group([job(1, "queued", models=[{"user_metadata": {"rsi_run": "d"}}])])
    assert (model["run"], model["latest_round"]) == ("d", None)
    two = [{"user_metadata": {"rsi_run": "d"}}] * 2
    nameless = ({"tags": {"rsi_run": 7}}, {"tags": {"rsi_run": " "}}, {"models": two}, {})
    assert group([job(1, "running", **training) for training in nameless]) == []


def test_a_run_is_running_while_any_job_is_and_else_what_its_newest_job_became():
    tags = {"rsi_run": "a", "rsi_round": "1", "rsi_checkpoint": "candidate-1"}
    kept = {"path": "envloop://job-1/ckpt-1"}
    first = job(1, "completed", tags=tags, checkpoint=kept)
    second = job(2, "failed", tags=tags | {"rsi_round": 2}, checkpoint={"path": ""})
    [run] = group([second, first])
    assert (run["status"], run["latest_round"]) == ("failed", 2)
    assert run["trainings"] == {"succeeded": 1, "total": 2}
    assert run["latest_checkpoint"] == {"name": "candidate-1", "train_job_id": "job-1", **kept}
    assert run["rounds"][0]["jobs"][0]["duration_sec"] == 30
    [run] = group([first, second, job(0, "recovering", tags=tags)])
    assert run["status"] == "running"


def test_get_of_a_run_whose_newest_job_failed_prints_it_and_exits_with_1(el: Terminal):
    page = {"items": [job(1, "failed", tags={"rsi_run": "a"})], "next_cursor": None}
    with Stranger(page) as stranger:
        el.set(ENVLOOP_BASE_URL=stranger.url)
        done = el("job", "run", "get", "a")
    assert done.code == 1 and "Status:            failed" in done.out


def test_jobs_are_listed_shown_and_read(el: Terminal, over: str):
    name = f"{over}-r1"
    assert name in el("job", "list", "--type", "train", "--status", "completed").out
    page = el("job", "list", "--limit", "1", "--json").json()
    assert len(page["items"]) == 1
    assert el("job", "get", name).json()["training"]["tags"]["rsi_run"] == over
    assert el("job", "result", name).json()["status"] == "completed"
    lines = el("job", "log", name, "--follow").out.splitlines()
    assert "run finished: 1 round, 0 promoted" in lines
    assert el("job", "log", name, "--tail", "1").out.splitlines() == lines[-1:]
    assert el("job", "stop", name).refusal == "CONFLICT"
    assert el("job", "get", "no-such-job").refusal == "JOB_NOT_FOUND"


# Watching


def events(server: Server, run: str) -> list[str]:
    """Every event of a run as a follower should print it, from the database."""
    rows = server.read(select(Event).where(Event.run == run).order_by(col(Event.seq)))
    return [f"{row.seq} {row.kind}: {row.text}" for row in rows]


def test_follow_prints_each_event_once_in_order_and_then_the_state(
    el: Terminal, server: Server, over: str
):
    wanted = events(server, over)
    assert len(wanted) > 10
    done = el("job", "run", "live", over, "--follow")
    assert done.code == 0 and done.out.splitlines() == [*wanted, "state: finished"]
    rest = el("job", "run", "live", over, "--follow", "--since", "10")
    assert rest.out.splitlines() == [*wanted[10:], "state: finished"]


def test_follow_ends_with_the_last_event_and_not_with_the_state(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.0)
    told = [{"seq": n, "kind": "message", "text": str(n)} for n in range(1, 451)]

    def read(since: int) -> dict[str, Any]:
        page = told[since : since + 200]
        more = bool(page) and page[-1]["seq"] < 450
        shown = "running" if more else "failed"
        return {"state": shown, "run_state": "failed", "events": page, "has_more": more}

    assert follow_run(read, 0) == "failed"
    assert capsys.readouterr().out.splitlines() == [f"{n} message: {n}" for n in range(1, 451)]


def test_follow_reads_on_while_there_is_more_and_then_asks_once_a_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    asked = []

    def read(since: int) -> dict[str, Any]:
        asked.append((since, len(slept)))
        event = {"seq": since + 1, "kind": "message", "text": "x"}
        state = "running" if since < 4 else "stopped"
        return {"run_state": state, "events": [event], "has_more": since < 2}

    assert follow_run(read, 0) == "stopped"
    assert asked == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2)] and slept == [1.0, 1.0]


def test_ctrl_c_ends_follow_with_0_and_leaves_the_run_alone(el: Terminal):
    run = started(el)
    follower = el.begin("job", "run", "live", run, "--follow")
    assert follower.stdout is not None
    follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate(timeout=60)
    assert (follower.returncode, err) == (0, "") and "state:" not in out
    now = el("job", "run", "live", run).json()
    assert now["run_state"] in ("starting", "running")
    assert el("job", "run", "stop", run).code == 0


def test_ctrl_c_ends_a_log_that_goes_on_with_130(el: Terminal):
    line = {"id": "1", "at": "2026-01-01T10:00:00Z", "source": "system", "content": "so far"}
    page = {"items": [line], "next_cursor": "1", "eof": False, "has_more": False}
    with Stranger(page) as stranger:
        el.set(ENVLOOP_BASE_URL=stranger.url)
        reader = el.begin("job", "log", "sums-r1", "--follow")
        assert reader.stdout is not None
        assert "so far" in reader.stdout.readline()
        reader.send_signal(signal.SIGINT)
        assert reader.communicate(timeout=60)[1] == "" and reader.returncode == 130


# Steering


def test_a_run_is_steered_stopped_and_extended(el: Terminal):
    run = started(el)
    ticket = el("job", "run", "steer", run, "Prefer long sums.").json()
    assert ticket["status"] == "queued"
    assert el("job", "run", "steer", run, " ").refusal == "INVALID_STEER"
    assert el("job", "run", "resume", run).refusal == "RSI_CONFLICT"
    assert el("job", "run", "stop", run).json()["stop_requested"] is True
    followed = el("job", "run", "live", run, "--follow")
    assert followed.out.splitlines()[-1] == "state: stopped"
    assert el("job", "run", "steer", run, "Too late.").refusal == "RSI_RUN_NOT_ACTIVE"
    assert el("job", "run", "stop", run).refusal == "RSI_CONFLICT"
    lower = el("job", "run", "extend", run, "--rounds", "9", "--model-usd-cap", "0.5")
    assert lower.refusal == "RSI_CONFLICT"
    again = el("job", "run", "extend", run, "--rounds", "9", "--max-model-cost-usd", "2").json()
    assert (again["state"], again["rounds_target"]) == ("running", 9)
    assert el("job", "run", "stop", run).code == 0


@pytest.mark.parametrize("words", ["live", "steer", "stop", "extend", "resume"])
def test_an_unknown_run_is_not_found_whatever_is_asked_of_it(el: Terminal, words: str):
    more = {"steer": ["hello"], "extend": ["--rounds", "2"]}.get(words, [])
    for name in ("no-such-run", "a b/c%", "../../job"):
        assert el("job", "run", words, name, *more).refusal == "RSI_RUN_NOT_FOUND"


def test_a_key_that_only_reads_lists_and_watches_and_may_do_nothing(
    el: Terminal, viewer: str, over: str
):
    el.set(ENVLOOP_API_KEY=viewer)
    assert el("job", "run", "list").code == 0 and el("job", "run", "live", over).code == 0
    for words in (["steer", over, "x"], ["stop", over], ["extend", over, "--rounds", "5"]):
        assert el("job", "run", *words).refusal == "ACCESS_DENIED"
    start = ["start", "viewer-run", "--brief", "x", "--model-usd-cap", "1"]
    assert el("job", "run", *start).refusal == "ACCESS_DENIED"


# The command itself


def test_the_command_loads_nothing_of_the_server():
    code = f"{START.removesuffix('; main()')}; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    rooms = {name.split(".")[0] for name in done.stdout.split()}
    assert not rooms & {"engine", "recipes", "pages", "nicegui", "sqlmodel", "pydantic", "fastapi"}
    assert "data.store" not in done.stdout.split()


def test_a_closed_pipe_ends_it_without_noise(el: Terminal, over: str):
    command = el.begin("job", "run", "live", over, "--follow")
    assert command.stdout is not None and command.stderr is not None
    command.stdout.close()
    assert command.stderr.read() == ""
    command.stderr.close()
    assert command.wait(60) == 1
