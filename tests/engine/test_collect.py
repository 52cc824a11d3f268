"""Collect asks the student as long as that is of use, and helps where it is not."""

from sqlmodel import col, func, select

from data.tables import Evaluation, Sample, TrainingRow
from engine.models import simulated
from engine.rounds import collect
from engine.rounds.collect import FIRST_TASKS
from tests.engine.phase_desk import PhaseDesk
from tests.instance import instance


def test_a_family_with_nothing_right_in_its_first_tasks_is_not_asked_on(tmp_path, monkeypatch):
    monkeypatch.setattr(simulated, "UNTRAINED", 0.0)
    with instance(tmp_path) as pawl:
        pawl.start("hopeless", rounds=1)
        pawl.wait("hopeless")
        with pawl.store.read() as session:
            collected = session.exec(select(Evaluation).where(Evaluation.split == "train")).one()
            tried = session.exec(
                select(Sample.family, func.count(func.distinct(col(Sample.task))))
                .where(Sample.evaluation == collected.id)
                .group_by(col(Sample.family))
            ).all()
            sources = select(TrainingRow.source, func.count()).group_by(col(TrainingRow.source))
            rows = dict(session.exec(sources).all())
    assert tried and all(count == FIRST_TASKS for _, count in tried)
    assert collected.planned == len(tried) * FIRST_TASKS
    assert rows["generator"] > collected.planned, "every planned task got its worked answer"
    assert "student" not in rows


def test_a_family_with_some_right_is_asked_in_full(tmp_path):
    with instance(tmp_path) as pawl:
        pawl.start("able", rounds=1)
        pawl.wait("able")
        with pawl.store.read() as session:
            collected = session.exec(select(Evaluation).where(Evaluation.split == "train")).one()
            samples = select(func.count()).where(Sample.evaluation == collected.id)
            asked = session.exec(samples).one()
    assert collected.planned == 400
    assert asked == 400 * 2


def test_a_family_of_which_no_difficulty_is_known_gets_its_tasks(tmp_path, monkeypatch):
    """Nothing of it had a verdict: its tasks come as they are drawn."""
    monkeypatch.setattr(collect, "best_version", lambda *_: None)
    monkeypatch.setattr(collect, "describe", lambda _: {})
    with instance(tmp_path) as pawl:
        desk = PhaseDesk(pawl, limits={"max_model_cost_usd": 1.0})
        family = desk.facts.config.families[0].id
        plan = {"families": {family: {"tasks": 7, "strata": {}}}}
        with pawl.store.read() as session:
            work = collect.prepare(session, desk.facts, 1, {"plan": {"plan": plan}})
    assert len(work["tasks"]) == 7
