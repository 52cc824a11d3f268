"""A strong model behind a real server runs the training of the embedded model, and hears a steer."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from data.home import open_home
from data.tables import Account, Checkpoint, Round, Steer, TrainingRow
from engine.types import ModelRef
from tests.instance import LIBRARY, OWNER, Instance, instance
from tests.scripted_operator import ADDITIONS, ASKED, HOW, KEY_ENV, NAME, ScriptedOperator

pytestmark = pytest.mark.timeout(900)

LIMITS = {
    "max_model_cost_usd": 1.0,
    "diag_per_family": 2,
    "dev_n": 6,
    "collect_tasks": 8,
    "collect_k": 1,
    "admission_n": 5,
    "blind_n": 6,
    "eval_limit": 4,
}
FEW_PROMPTS = 4  # for replay, instead of all


@pytest.fixture(scope="module")
def steered(
    tmp_path_factory: pytest.TempPathFactory, base: ModelRef
) -> Iterator[tuple[Instance, ScriptedOperator]]:
    """A run of two short rounds on the embedded model, steered while the first is planned."""

    def owner_speaks(shown: dict[str, Any]) -> None:
        if shown["round"] == 1:
            pawl.service.steer(OWNER, "r", f"{ASKED}, please")

    home = tmp_path_factory.mktemp("home")
    shutil.copytree(base.path, open_home(home).models / base.base)
    (home / "precision-cpu.json").write_text('{"precision": "float32"}')
    few = replace(LIBRARY, replay_prompts=LIBRARY.replay_prompts[:FEW_PROMPTS])
    with pytest.MonkeyPatch.context() as patch, ScriptedOperator(heard=owner_speaks) as operator:
        patch.setenv(KEY_ENV, "the-key")
        with instance(home, library=few) as pawl:
            operator.register(pawl.store)
            models = {"base_model": base.base, "operator_model": NAME}
            pawl.start("r", preset="demo", rounds=2, limits=LIMITS, **models)
            assert pawl.wait("r", seconds=840).state == "finished"
            yield pawl, operator


def test_the_next_plan_cites_the_steer_and_its_rows_show_it(steered):
    pawl, operator = steered
    (steer,) = pawl.rows(Steer)
    first, second = sorted(pawl.rows(Round), key=lambda one: one.number)
    assert first.plan["followed"] == []
    assert second.plan["followed"] == [{"id": steer.id, "kind": "steer", "how": HOW}]
    assert (steer.status, steer.round) == ("delivered", 2)
    made = [(row.round, row.family) for row in pawl.rows(TrainingRow) if row.family != "replay"]
    assert {family for number, family in made if number == 1} > {ADDITIONS}
    assert {family for number, family in made if number == 2} == {ADDITIONS}
    assert json.dumps(ASKED)[1:-1] in operator.requests[-1]["messages"][1]["content"]


def test_the_student_is_trained_as_the_plan_says_and_the_operator_is_paid(steered):
    pawl, operator = steered
    for checkpoint in pawl.rows(Checkpoint):
        training = checkpoint.training
        assert training["settings"]["learning_rate"] == 0.0005
        assert training["settings"]["epochs"] == 2.0 and training["steps"] > 0
        assert not checkpoint.simulated
    assert len(pawl.rows(Checkpoint)) == 2
    assert {row.id: row.model_settled for row in pawl.rows(Account)}["run:r"] == operator.billed
