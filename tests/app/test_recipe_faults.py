"""A recipe that could not be served is refused when its run is started, not after a night."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.administration import LOCAL_OWNER
from app.errors import Conflict, InvalidRequest
from app.service import Service
from data.store import Store
from engine.lint import faults_of

GIVEN = {"run": "r", "brief": "learn sums", "limits": {"max_model_cost_usd": 1.0}}


@pytest.fixture
def service(store: Store, tmp_path: Path) -> Service:
    made = Service(store, "CPU", lambda: None)
    made.look_at_recipes(partial(faults_of, tmp_path, lambda: "cpu"))
    return made


def test_a_run_of_a_recipe_for_a_card_is_refused_without_one(service: Service) -> None:
    given = GIVEN | {"preset": "gpu-24gb", "base_model": "SmolLM2-135M-Instruct"}
    with pytest.raises(Conflict, match='preset gpu-24gb: lora.quantize = "4bit" needs'):
        service.start_run(LOCAL_OWNER, **given)


def test_a_preset_without_a_base_model_asks_for_one(service: Service) -> None:
    with pytest.raises(InvalidRequest, match="base_model: preset gpu-8gb is .*model add-base"):
        service.start_run(LOCAL_OWNER, **GIVEN, preset="gpu-8gb")


def test_a_dry_run_trains_nothing_and_is_not_looked_at(service: Service) -> None:
    def refuse(base: str, config: Mapping[str, Any]) -> list[str]:
        raise AssertionError(base)

    service.look_at_recipes(refuse)
    with pytest.raises(InvalidRequest, match="known price"):
        service.start_run(LOCAL_OWNER, **GIVEN, dry_run=True)
