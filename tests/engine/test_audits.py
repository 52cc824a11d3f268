"""Each audit approves a clean run and rejects what it is there to find; one that breaks blocks."""

import pytest
from sqlmodel import select

from data.journal import result_of
from data.ledger import reserve
from data.tables import Account, Evaluation, ModelCall, Run, Task, TrainingRow
from engine.audits import AUDITS, score_coverage
from engine.facts import read_facts
from engine.rounds import audit
from recipes.guard import GUARD
from tests.instance import LIBRARY, instance


@pytest.fixture(scope="module")
def pawl(tmp_path_factory):
    with instance(tmp_path_factory.mktemp("home")) as one:
        one.start("sim-1", rounds=1)
        one.wait("sim-1")
        yield one


class Undo(Exception):
    """Ends a change that was only tried."""


def examine(pawl, name, spoil=lambda session: None, past=None):
    """What an audit says after `spoil(session)`; nothing of it stays in the database."""
    found = []

    def change(session):
        facts = read_facts(session.get(Run, "sim-1"), LIBRARY, pawl.home)
        spoil(session)
        session.flush()
        state = past or {"blind": result_of(session, "sim-1", 1, "blind")}
        found.append(AUDITS[name].examine(session, facts, LIBRARY, 1, state))
        raise Undo

    with pytest.raises(Undo):
        pawl.store.write(change)
    return found[0]


@pytest.mark.parametrize("name", sorted(AUDITS))
def test_a_clean_run_is_approved(pawl, name):
    assert examine(pawl, name).verdict == "approved"


def one_row(session) -> TrainingRow:
    return session.exec(select(TrainingRow).where(TrainingRow.source != "replay")).first()


def row_asks_a_dev_task(session):
    dev = session.exec(select(Task).where(Task.split == "dev")).first()
    row = one_row(session)
    row.canonical_key = dev.canonical_key
    session.add(row)


def row_has_a_guard_text(session):
    row = one_row(session)
    text = f"  {GUARD.tasks[0].prompt.upper()} "
    row.messages = [row.messages[0], {"role": "user", "content": text}]
    session.add(row)


def row_of_a_held_out_family(session):
    row = one_row(session)
    row.family = next(f.id for f in LIBRARY.domains["arith"].families if f.role == "held_out")
    session.add(row)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (row_asks_a_dev_task, "KEY_COLLISION"),
        (row_has_a_guard_text, "TEXT_COLLISION"),
        (row_of_a_held_out_family, "HELDOUT_FAMILY_IN_TRAIN"),
    ],
)
def test_a_leaked_row_is_found(pawl, spoil, code):
    found = examine(pawl, "data_leakage", spoil)
    assert found.verdict == "rejected" and code in {reason for reason, _ in found.reasons}


def test_a_blind_task_that_met_a_row_is_found_by_its_count(pawl):
    found = examine(pawl, "data_leakage", past={"blind": {"overlap": {"keys": 1, "texts": 0}}})
    assert found.verdict == "rejected"


def lose_verdicts(session):
    row = session.exec(select(Evaluation).where(Evaluation.split == "blind")).first()
    row.scored = int(0.97 * row.planned)
    session.add(row)


def test_missing_verdicts_are_found(pawl):
    found = examine(pawl, "score_coverage", lose_verdicts)
    assert found.verdict == "rejected" and found.reasons[0][0] == "COVERAGE_BELOW_98"


def test_a_gain_that_missing_verdicts_could_explain_is_found():
    flipped = {"difference": 0.02, "conservative": -0.01}
    assert score_coverage._sign_flip(flipped)[0][0] == "CONSERVATIVE_SIGN_FLIP"


def spend_unseen(session):
    account = session.get(Account, "run:sim-1")
    account.model_settled += 5
    session.add(account)


def call_without_reservation(session):
    call = ModelCall(
        project_id="prj_local",
        run="sim-1",
        step="plan",
        call_key="x",
        role="operator",
        model="sim/operator",
        request_hash="0",
        reservation=999,
    )
    session.add(call)


def reserve_without_call(session):
    reserve(session, ["run:sim-1"], "model", 5, project_id="prj_local", run="sim-1")


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (spend_unseen, "LEDGER_MISMATCH"),
        (call_without_reservation, "UNMETERED_CALL"),
        (reserve_without_call, "LEDGER_MISMATCH"),
    ],
)
def test_money_that_does_not_add_up_is_found(pawl, spoil, code):
    found = examine(pawl, "budget_reconcile", spoil)
    assert found.verdict == "rejected" and code in {reason for reason, _ in found.reasons}


def test_an_audit_that_breaks_is_an_error_and_not_an_approval(pawl, monkeypatch):
    def broken(*args):
        raise KeyError("no such figure")

    monkeypatch.setattr(AUDITS["score_coverage"], "examine", broken)
    with pawl.store.read() as session:
        facts = read_facts(session.get(Run, "sim-1"), LIBRARY, pawl.home)
        found = audit._examine("score_coverage", session, facts, LIBRARY, {"round": 1, "past": {}})
    assert found.verdict == "error" and "no such figure" in found.text
