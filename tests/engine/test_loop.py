"""A whole loop on simulated models: what it records, repeats, spends, and keeps sealed."""

import json

import pytest
from sqlmodel import select

from data.tables import (
    Account,
    Audit,
    Checkpoint,
    Evaluation,
    Event,
    Job,
    ModelCall,
    Round,
    Sample,
    Task,
    TrainingRow,
    Version,
)
from recipes.domains import DOMAINS
from tests.instance import OWNER, Instance, instance


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """A finished two-round simulated run, with the server that ran it."""
    with instance(tmp_path_factory.mktemp("home")) as pawl:
        pawl.engine.start()
        pawl.start("sim-1")
        pawl.wait("sim-1")
        yield pawl


def rows(pawl: Instance, table: type, run: str = "sim-1") -> list:
    return pawl.rows(table, run=run)


def test_a_run_ends_with_a_decision_and_a_reason_for_every_round(loop):
    found = loop.service.run_detail(OWNER, "sim-1")
    assert found.state == "finished" and found.best_version == "candidate-2"
    assert [r.decision for r in found.rounds] == ["promote", "promote"]
    assert all(r.reason and r.outcome == "completed" for r in found.rounds)
    assert found.rounds[1].start_version == "candidate-1"


def test_the_gate_shows_what_it_decided_on(loop):
    gate = loop.service.run_round(OWNER, "sim-1", 1).gate
    assert gate.n >= 100 and gate.coverage == 1.0
    assert gate.difference.low > 0 and gate.p_value < gate.alpha
    assert gate.difference.mean == pytest.approx(gate.candidate_score.mean - gate.best_score.mean)
    assert {check["name"] for check in gate.checks} >= {"audits", "guard", "held-out", "coverage"}


def test_the_second_plan_comes_from_the_first_candidates_failures(loop):
    first, second = rows(loop, Round)
    assert first.plan["because"] != second.plan["because"]
    with loop.store.read() as session:
        query = select(Evaluation).where(Evaluation.split == "diag", Evaluation.round == 2)
        diagnosis = session.exec(query).one()
    assert diagnosis.version == "candidate-1"
    seen = {
        family: sum(one["right"] for one in second.plan["because"] if one["family"] == family)
        for family in diagnosis.families
    }
    right = {name: round(one["mean"] * one["n"]) for name, one in diagnosis.families.items()}
    assert seen == right


def test_everything_simulated_says_so(loop):
    for table in (Version, Evaluation, Checkpoint, TrainingRow):
        assert rows(loop, table) and all(row.simulated for row in rows(loop, table))
    assert loop.service.run_detail(OWNER, "sim-1").simulated


def test_every_row_has_its_lineage_and_a_right_answer(loop):
    training = rows(loop, TrainingRow)
    tasks = {task.id: task for task in rows(loop, Task) if task.split == "train"}
    verifier = DOMAINS["arith"].verifier
    for row in training:
        if row.source != "replay":
            assert tasks[row.task].canonical_key == row.canonical_key
            assert row.verifier == f"{verifier.name}:{verifier.sha256[:16]}"
    by_round = {n: [r for r in training if r.round == n] for n in (1, 2)}
    for group in by_round.values():
        replay = sum(1 for row in group if row.source == "replay")
        assert 0.2 <= replay / len(group) <= 0.3


def test_training_from_the_base_uses_the_rows_of_every_round_so_far(loop):
    counts = [sum(1 for row in rows(loop, TrainingRow) if row.round <= n) for n in (1, 2)]
    candidates = [v for v in rows(loop, Version) if v.role == "candidate"]
    assert [version.trained_rows for version in candidates] == counts
    file = loop.home.run_folder("sim-1") / "rows-2.jsonl"
    assert len(file.read_text().splitlines()) == counts[1]


def test_scores_carry_both_hashes_and_versions_meet_under_one_protocol(loop):
    evaluations = rows(loop, Evaluation)
    assert all(row.version_hash and row.protocol_hash for row in evaluations)
    blind = [row for row in evaluations if row.split == "blind" and row.round == 1]
    assert {row.version for row in blind} == {"base", "candidate-1"}
    assert len({row.protocol_hash for row in blind}) == 1


def test_every_round_uses_fresh_blind_tasks_unsealed_after_its_gate(loop):
    blind = [task for task in rows(loop, Task) if task.split == "blind"]
    keys = [task.canonical_key for task in blind]
    assert len(keys) == len(set(keys)) and {task.round for task in blind} == {1, 2}
    assert {task.split for task in rows(loop, Task)} == {"dev", "diag", "train", "blind"}


def test_events_are_numbered_without_gaps_and_the_last_one_ends_the_run(loop):
    events = sorted(rows(loop, Event), key=lambda event: event.seq)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].text.startswith("run finished")
    live = loop.service.run_live(OWNER, "sim-1", since=0, limit=3)
    assert (live.state, live.run_state, live.has_more) == ("running", "finished", True)
    rest = loop.service.run_live(OWNER, "sim-1", since=live.next_cursor)
    assert (rest.state, rest.has_more) == ("finished", False)


def test_every_round_has_its_job_and_all_required_audits(loop):
    assert [(job.round, job.status) for job in rows(loop, Job)] == [
        (1, "completed"),
        (2, "completed"),
    ]
    for number in (1, 2):
        verdicts = {(a.type, a.verdict) for a in rows(loop, Audit) if a.round == number}
        assert verdicts == {
            ("data_leakage", "approved"),
            ("score_coverage", "approved"),
            ("budget_reconcile", "approved"),
        }


def test_the_same_seed_gives_the_same_tasks_rows_and_decisions(loop):
    loop.start("sim-2")
    loop.wait("sim-2")
    for table, fields in (
        (Task, ("id", "split", "round", "number")),
        (TrainingRow, ("row_hash", "round", "source")),
        (Round, ("number", "decision", "reason", "hypothesis")),
        (Sample, ("task", "attempt", "text", "score")),
        (Evaluation, ("version", "split", "round", "mean", "protocol_hash")),
    ):
        first, second = (
            sorted(tuple(str(getattr(row, f)) for f in fields) for row in rows(loop, table, run))
            for run in ("sim-1", "sim-2")
        )
        assert first and first == second


def test_another_seed_gives_other_tasks(loop):
    loop.start("sim-3", seed=8, rounds=1)
    loop.wait("sim-3")
    first = {task.id for task in rows(loop, Task) if task.split == "dev"}
    other = {task.id for task in rows(loop, Task, "sim-3") if task.split == "dev"}
    assert len(first & other) < len(first) // 10


def test_a_dry_run_spends_to_the_micro_dollar_and_is_never_evaluated(loop):
    loop.start("dry-1", dry_run=True, operator_model="sim/operator", teacher_model="sim/teacher")
    found = loop.wait("dry-1")
    assert {r.decision for r in found.rounds} == {"not_evaluated"} and found.best_version is None
    calls = rows(loop, ModelCall, "dry-1")
    with loop.store.read() as session:
        account = session.get_one(Account, "run:dry-1")
    assert {call.role for call in calls} == {"student", "operator", "teacher"}
    assert {call.status for call in calls} == {"answered"}
    assert account.model_settled == sum(call.cost for call in calls) > 0
    assert account.requests == len(calls) and account.model_reserved == 0
    assert all(call.simulated for call in calls) and found.spend.gpu_usd == 0
    reworded = [row for row in rows(loop, TrainingRow, "dry-1") if row.source == "reworded"]
    assert reworded and all("Work out: " in row.messages[-1]["content"] for row in reworded)
    assert {row.source_model for row in reworded} == {"sim/teacher"}


def test_a_cap_stops_a_dry_run_with_its_name_and_is_never_passed(loop):
    loop.start("dry-2", dry_run=True, limits={"max_model_cost_usd": 0.001})
    found = loop.wait("dry-2")
    assert found.state == "stopped" and "model cap $0.001 reached" in found.reason
    assert 0.0008 < found.spend.model_usd <= 0.001


def test_device_time_is_leased_from_the_same_ledger(tmp_path):
    with instance(tmp_path, micro_per_hour=3_600_000_000) as pawl:  # a thousand dollars a second
        pawl.engine.start()
        pawl.start("priced", limits={"max_model_cost_usd": 1.0, "max_cost_usd": 50.0})
        found = pawl.wait("priced")
        assert found.state == "stopped" and "total cap $50.00" in found.reason
        assert found.spend.total_usd <= 50 and found.spend.reserved_usd == 0


def test_a_live_run_waits_for_the_device_and_says_who_holds_it(tmp_path):
    with instance(tmp_path) as pawl:
        pawl.start("first")
        pawl.start("second")
        pawl.engine.tick()
        second = pawl.service.run_detail(OWNER, "second")
        assert second.state == "starting" and second.reason == "waits for the device, held by first"
        assert pawl.wait("first").state == pawl.wait("second").state == "finished"


def test_plain_data_of_a_round_is_json(loop):
    shape = loop.service.run_round(OWNER, "sim-1", 1)
    assert json.loads(shape.model_dump_json())["decision"] == "promote"
