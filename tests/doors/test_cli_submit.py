"""The command `el job submit`: trains on the rows of a file, and names the field that is wrong."""

import json
from pathlib import Path

from tests.doors.terminal import Terminal

ROW = {"messages": [{"role": "user", "content": "2+2"}], "completion": "4"}
SPEC = {"base_model": "sim/student", "data": {"rows": [ROW] * 8}}


def test_a_training_is_submitted_and_waited_for(el: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"spec": SPEC}))
    done = el("job", "submit", "--file", str(file), "--wait").json()
    assert done["status"] == "completed" and done["training"]["simulated"] is True
    assert el("job", "result", done["job_id"]).json()["metrics"]["rows_used"] == 8


def test_a_wrong_field_is_named(el: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"spec": SPEC | {"lora": {"rank": 0}}}))
    done = el("job", "submit", "--file", str(file))
    assert done.refusal == "INVALID_TRAIN_JOB_SPEC" and "lora.rank" in done.err


def test_a_request_comes_from_standard_input_too(el: Terminal) -> None:
    done = el("job", "submit", "--file", "-", "--wait", stdin=json.dumps({"spec": SPEC})).json()
    assert done["status"] == "completed"


def test_a_file_that_is_no_json_object_is_told_where(el: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text('{"spec":\n {"a" 1}}')
    done = el("job", "submit", "--file", str(file))
    assert done.refusal == "FILE_ERROR" and "no JSON at line 2, column 7" in done.err
    file.write_text("[]")
    done = el("job", "submit", "--file", str(file))
    assert done.refusal == "FILE_ERROR" and "give a JSON object" in done.err
    done = el("job", "submit", "--file", str(tmp_path / "none.json"))
    assert done.refusal == "FILE_ERROR" and "could not be read" in done.err


def test_a_request_id_of_another_request_and_a_wrong_action_are_told_in_words(
    el: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"request_id": "once", "spec": SPEC}))
    job = el("job", "submit", "--file", str(file), "--wait").json()["job_id"]
    file.write_text(json.dumps({"request_id": "once", "spec": SPEC | {"name": "other"}}))
    done = el("job", "submit", "--file", str(file))
    assert done.refusal == "TRAIN_JOB_IDEMPOTENCY_CONFLICT"
    assert "used for another request" in done.err and "leave it out" in done.err
    done = el("job", "pause", job)
    assert done.refusal == "JOB_ACTION_UNSUPPORTED" and "knows no such action" in done.err
