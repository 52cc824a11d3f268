"""The operator: what it is shown, how its turns go, and that steers count."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlmodel import Session

from data.tables import (
    Account,
    Checkpoint,
    Evaluation,
    Event,
    ModelCall,
    Round,
    Sample,
    Steer,
    Task,
    TrainingRow,
)
from engine import operator_view
from engine.rounds import plan
from recipes.guard import GUARD
from tests.engine.phase_desk import PhaseDesk
from tests.instance import OWNER, Instance, instance
from tests.scripted_operator import ADDITIONS, ASKED, HOW, KEY_ENV, NAME, ScriptedOperator, plan_for

SMALL = {
    "max_model_cost_usd": 5.0,
    "diag_per_family": 4,
    "dev_n": 40,
    "collect_tasks": 120,
    "collect_k": 1,
    "admission_n": 10,
    "blind_n": 40,
    "eval_limit": 12,
}


@pytest.fixture(scope="module", autouse=True)
def key() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_ENV, "the-key")
        yield


# A whole run


@pytest.fixture(scope="module")
def steered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Instance, Any]]:
    """A finished run of two rounds, steered while its first round is planned."""

    def owner_speaks(shown: dict[str, Any]) -> None:
        if shown["round"] == 1 and not shown["steers"]:
            pawl.service.steer(OWNER, "r", f"{ASKED}, please")

    with (
        ScriptedOperator(heard=owner_speaks) as operator,
        instance(tmp_path_factory.mktemp("home")) as pawl,
    ):
        operator.register(pawl.store)
        pawl.start("r", operator_model=NAME, rounds=2, limits=SMALL)
        pawl.service.add_directive(OWNER, "r", "Keep answers short.")
        assert pawl.wait("r").state == "finished"
        yield pawl, operator


def test_the_plan_after_a_steer_cites_it_and_its_rows_are_what_was_asked_for(steered):
    pawl, _ = steered
    (steer,) = pawl.rows(Steer)
    first, second = pawl.rows(Round)
    assert (steer.status, steer.round, steer.reason) == ("delivered", 2, None)
    assert first.plan["followed"] == []
    assert second.plan["followed"] == [{"id": steer.id, "kind": "steer", "how": HOW}]
    families = {
        number: {row.family for row in pawl.rows(TrainingRow, round=number)} - {"replay"}
        for number in (1, 2)
    }
    assert len(families[1]) > 1 and families[2] == {ADDITIONS}


def test_every_door_shows_what_became_of_a_steer_and_a_directive(steered):
    pawl, _ = steered
    (steer,) = pawl.service.run_live(OWNER, "r", since=0).steers
    assert steer.delivered_at and (steer.used.round, steer.used.how) == (2, HOW)
    (directive,) = pawl.service.directives(OWNER, "r")
    assert (directive.read, directive.used) == ([1, 2], [])
    second = pawl.service.run_round(OWNER, "r", 2)
    assert second.steers == [f"{ASKED}, please"]
    assert [(one.kind, one.how) for one in second.followed] == [("steer", HOW)]
    assert ("steer", f"{ASKED}, please: {HOW}") in [(i.kind, i.text) for i in second.interventions]


def test_each_turn_is_told_with_the_reasoning_and_the_plan(steered):
    pawl, _ = steered
    told = [(e.kind, e.text) for e in pawl.rows(Event, role="operator") if e.kind != "steer"]
    assert [kind for kind, _ in told] == ["tool_call", "message", "tool_result"] * 2
    assert told[0][1].startswith(f"{NAME} plans, turn 1: reads ")
    assert told[0][1].endswith("1 directive, 0 steers")
    assert told[1][1].startswith("Round 1: ") and told[2][1].startswith("plan: ")


def test_the_settings_that_it_chooses_are_trained_with_and_recorded(steered):
    pawl, _ = steered
    for checkpoint, one in zip(pawl.rows(Checkpoint), pawl.rows(Round), strict=True):
        used = checkpoint.training["settings"]
        assert (used["learning_rate"], used["epochs"]) == (0.0005, 2.0)
        assert one.plan["settings"]["learning_rate"] == 0.0005


def test_it_is_paid_for_to_the_micro_dollar(steered):
    pawl, operator = steered
    with pawl.store.read() as session:
        assert session.get_one(Account, "run:r").model_settled == operator.billed
    assert {call.role for call in pawl.rows(ModelCall)} == {"operator"}


def test_it_sees_failed_diagnosis_answers_and_nothing_sealed(steered):
    pawl, operator = steered
    tasks = pawl.rows(Task)
    shown = [
        one["prompt"]
        for plan_ in operator.shown
        for family in plan_["families"].values()
        for one in family["failed answers"]
    ]
    assert shown and set(shown) <= {task.prompt for task in tasks if task.split == "diag"}
    text = "".join(m["content"] for body in operator.requests for m in body["messages"])
    sealed = [task.prompt for task in tasks if task.split in ("dev", "blind")]
    assert {task.split for task in tasks} >= {"dev", "blind"}
    for prompt in [*sealed, *(task.prompt for task in GUARD.tasks)]:
        assert json.dumps(prompt, ensure_ascii=False) not in text


# What it is shown


def test_only_failed_answers_of_readable_splits_are_extracts_and_they_are_short(tmp_path):
    with instance(tmp_path) as pawl:
        pawl.start("r")
        splits = ("diag", "dev", "blind", "held_out", "guard", "calib")
        pawl.store.write(lambda s: [_failed(s, split, n) for n, split in enumerate(splits)])
        with pawl.store.read() as session:
            found = operator_view.failures(session, "r", 1)
    assert list(found) == ["f"] and len(found["f"]) == operator_view.FAILURES
    assert all(one["prompt"].startswith("diag ") for one in found["f"])
    assert all(len(one["prompt"]) == operator_view.PROMPT_CHARS for one in found["f"])
    assert all(len(one["answer"]) == operator_view.ANSWER_CHARS for one in found["f"])


def _failed(session: Session, split: str, number: int) -> None:
    """Five long wrong answers in a split, each of a difficulty of its own, and a right one."""
    about = {"project_id": "prj_local", "run": "r"}
    evaluation = Evaluation(
        **about,
        round=1,
        version="base",
        version_hash="v",
        suite="arith",
        split=split,
        protocol_hash="p",
        planned=6,
        scored=6,
        mean=0.1,
        low=0.0,
        high=1.0,
        conservative=0.1,
    )
    session.add(evaluation)
    session.flush()
    for index in range(6):
        name, stratum = f"{split}-{index}", f"kind {index}"
        session.add(
            Task(
                **about,
                id=name,
                split=split,
                family="f",
                family_version="1",
                number=index,
                round=1,
                prompt=f"{split} {'x' * 5000}",
                stratum=stratum,
                canonical_key=name,
                template_id="t",
                worked="1",
            )
        )
        session.add(
            Sample(
                **about,
                evaluation=evaluation.id,
                task=name,
                family="f",
                stratum=stratum,
                text="y" * 5000,
                score=float(index == 0),
                reason="wrong_value",
            )
        )


# Turns


class Desk(PhaseDesk):
    """The plan phase with a real gateway and a real server behind it; a steer waits."""

    def __init__(self, pawl: Instance, operator: ScriptedOperator) -> None:
        operator.register(pawl.store)
        super().__init__(pawl, operator_model=NAME)
        pawl.service.steer(OWNER, "r", ASKED)
        with pawl.store.read() as session:
            families = {f.id: {"easy": {"mean": 0.0, "n": 4}} for f in self.facts.config.families}
            past = {"diagnose": {"strata": families}}
            self.work = plan.prepare(session, self.facts, 1, past)

    def plan(self) -> Round:
        """The round with its plan, as the phase records it."""
        pawl, facts = self.pawl, self.facts
        result = plan.execute(self.work, facts, self.tools("plan"))
        pawl.store.write(lambda s: plan.record(s, facts, 1, self.work, result))
        (row,) = pawl.rows(Round)
        return row


def test_a_refused_plan_is_asked_again_with_the_reason(tmp_path):
    bad = json.dumps({"student_model": "gpt"})
    with ScriptedOperator(bad) as operator, instance(tmp_path) as pawl:
        row = Desk(pawl, operator).plan()
        assert row.plan["planner"] == NAME and "note" not in row.plan
        assert [len(body["messages"]) for body in operator.requests] == [2, 4]
        said, reason = (m["content"] for m in operator.requests[1]["messages"][2:])
        assert said == bad and "the plan has no student_model" in reason
        assert [body["response_format"]["type"] for body in operator.requests] == [
            "json_schema"
        ] * 2
        told = [(event.kind, event.text) for event in pawl.rows(Event, role="operator")]
        assert [kind for kind, _ in told][:4] == [
            "tool_call",
            "tool_result",
            "tool_call",
            "message",
        ]
        assert told[1][1].startswith("plan refused: the plan has no student_model")
        assert {call.status for call in pawl.rows(ModelCall)} == {"answered"}


def test_after_three_refused_plans_the_built_in_planner_takes_over_and_the_round_says_so(tmp_path):
    with ScriptedOperator(*["no"] * 3) as operator, instance(tmp_path) as pawl:
        row = Desk(pawl, operator).plan()
        assert len(operator.requests) == 3
        assert row.plan["planner"] == "built-in" and row.plan["followed"] == []
        assert "refused 3 times" in row.plan["note"]
        (steer,) = pawl.rows(Steer)
        assert steer.status == "delivered" and "its plan was refused" in steer.reason
        assert "refused 3 times" in pawl.rows(Event, kind="error")[0].text


def test_an_operator_that_cannot_be_reached_leaves_its_steers_to_the_next_turn(tmp_path):
    with instance(tmp_path) as pawl:
        with ScriptedOperator() as operator:
            operator.behave = lambda body: "401"
            row = Desk(pawl, operator).plan()
        assert row.plan["planner"] == "built-in" and "401" in row.plan["note"]
        assert row.plan["steers"] == [] and pawl.rows(Steer)[0].status == "queued"


def test_the_script_itself_plans_within_the_form(tmp_path):
    with ScriptedOperator() as operator, instance(tmp_path) as pawl:
        desk = Desk(pawl, operator)
        assert plan_for(operator_view.as_shown(desk.work))["follows"][0]["how"] == HOW
        assert desk.plan().plan["followed"][0]["kind"] == "steer"
