"""The demo command: its options, its table, its data; once on the real model."""

import json
import subprocess
import sys

import pytest

from tests.server.process import ROOT, Server, environment_for, result_of_demo


def check_shape(found: dict) -> None:
    """Every field that `--json` promises is there, with differences as candidate minus best."""
    assert {"run", "state", "seconds", "device_seconds", "model_usd", "rounds"} <= set(found)
    for one in found["rounds"]:
        assert set(one) == {
            *("round", "plan", "rows", "candidate", "outcome", "decision", "reason"),
            *("dev", "blind", "guard", "held_out", "audits"),
        }
        assert all({"type", "verdict", "reason"} == set(audit) for audit in one["audits"])
        for figures in (one["blind"], one["dev"]):
            if figures:
                means = [figures[side]["mean"] for side in ("candidate", "best", "difference")]
                assert means[2] == pytest.approx(means[0] - means[1])
                assert figures["n"] and figures["coverage"] is not None


@pytest.fixture
def quick(monkeypatch):
    """Simulated models that take a tenth of their time; a run of them says the same."""
    monkeypatch.setenv("PAWL_SIM_PACE", "0.002")


def test_rounds_seed_preset_and_json_work_and_a_simulated_run_says_so(tmp_path, quick):
    first, printed = result_of_demo(
        tmp_path / "a", "--preset", "sim", "--seed", "3", "--rounds", "1", seconds=120
    )
    again, _ = result_of_demo(
        tmp_path / "b", "--preset", "sim", "--seed", "3", "--rounds", "1", seconds=120
    )
    check_shape(first)
    assert len(first["rounds"]) == 1 and first["simulated"] and "SIMULATED" in printed
    assert first["rounds"] == again["rounds"]
    assert "Seed 3" in printed and "python3 run.py" in printed
    for word in ("base", "candidate-1", "guard", "held-out", "blind", "audits", "Model spend"):
        assert word in printed


@pytest.mark.parametrize(
    ("option", "known"), [("--domain", "arith"), ("--preset", "demo"), ("--rounds", "1 to 1000")]
)
def test_a_bad_option_is_refused_in_words_and_nothing_starts(tmp_path, option, known):
    value = "0" if option == "--rounds" else "nonsense"
    command = [sys.executable, str(ROOT / "run.py"), "demo", option, value]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment_for(tmp_path), check=False
    )
    assert done.returncode == 2 and known in done.stderr and "Traceback" not in done.stderr


def test_beside_a_running_server_the_demo_runs_there(tmp_path, quick):
    server = Server(tmp_path)
    try:
        found, printed = result_of_demo(tmp_path, "--preset", "sim", "--rounds", "1", seconds=120)
        assert "A server holds this home folder" in printed
        assert server.run(found["run"]).state == "finished"
    finally:
        server.close()


@pytest.mark.timeout(900)
def test_a_real_round_is_promoted_on_its_blind_gain(tmp_path):
    found, printed = result_of_demo(tmp_path, "--rounds", "1", "--seed", "11", seconds=880)
    check_shape(found)
    (one,) = found["rounds"]
    assert one["decision"] == "promote", json.dumps(one, indent=1)
    assert one["blind"]["n"] >= 100 and one["blind"]["coverage"] >= 0.98
    assert one["blind"]["difference"]["low"] > 0.20
    assert {audit["verdict"] for audit in one["audits"]} == {"approved"}
    assert not found["simulated"] and found["device_seconds"] > 0
    assert "train" in printed and "of" in printed


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_whole_demo_promotes_its_first_candidate_and_plans_from_its_failures(tmp_path):
    found, _ = result_of_demo(tmp_path, seconds=1100)
    check_shape(found)
    first, second = found["rounds"]
    assert first["decision"] == "promote" and first["blind"]["difference"]["low"] > 0.20
    assert second["plan"]["because"] != first["plan"]["because"]
    assert found["seconds"] < 900 and found["seed"] is None
