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
    file.write_text("[")
    assert el("job", "submit", "--file", str(file)).refusal == "FILE_ERROR"
