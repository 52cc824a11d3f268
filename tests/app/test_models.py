"""The registry of models: who may change it, what is refused, what a run may be started with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session

from app.administration import LOCAL_OWNER
from app.caller import ROLES, Caller
from app.errors import AccessDenied, Conflict, InvalidRequest, NotFound
from app.models import GatewayPort, Models, check_models
from app.models_cli import micro
from app.project_caps import set_caps
from data.store import Store
from data.tables import Account, GatewayModel, Project
from engine.models.trial import check_address, try_model

URL = "https://93.184.216.34/v1"
TIER = {"above": 200_000, "input": 6_000_000, "output": 22_500_000}
GIVEN = {
    "name": "lab/big",
    "base_url": URL,
    "input_micro": 3_000_000,
    "output_micro": 15_000_000,
    "key_env": "LAB_KEY",
}


@pytest.fixture
def models(store: Store) -> Models:
    store.write(lambda s: s.add(Project(id="prj_local", workspace_id="w", name="local")))
    port = GatewayPort(
        check_address=check_address, try_model=lambda project, name: try_model(store, project, name)
    )
    return Models(store, port)


def check(store: Store, **named: str) -> None:
    with store.read() as session:
        check_models(session, named)


@pytest.mark.parametrize("role", ["viewer", "developer"])
def test_only_an_administrator_sees_or_changes_models(models: Models, role: str) -> None:
    who = Caller(
        actor="ann", workspace_id="w", project_id="prj_local", capabilities=ROLES[role], user_id="u"
    )
    for do in (lambda: models.list_all(who), lambda: models.add(who, **GIVEN)):
        with pytest.raises(AccessDenied):
            do()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"name": "sim/mine"}, "cannot be the name"),
        ({"name": "-x"}, "cannot be the name"),
        ({"base_url": "http://127.0.0.1:8000/v1"}, "--local"),
        ({"base_url": "http://10.0.0.7/v1"}, "--local"),
        ({"base_url": "http://169.254.169.254/v1", "local": True}, "metadata"),
        ({"base_url": "https://u:p@models.example/v1"}, "no user, password"),
        ({"key_env": "sk-live-0123"}, "never the key itself"),
        ({"key_env": None}, "name the variable or the file"),
        ({"key_file": "/k"}, "not both"),
        ({"key_env": None, "key_file": "k"}, "whole path"),
        ({"input_micro": 0}, "may cost nothing"),
        ({"cached_micro": -1}, "a price from 0"),
        ({"tiers": [TIER | {"output": -1}]}, "output above 200000: give a price from 0"),
        ({"tiers": [TIER | {"input": 0}]}, "input above 200000: .* may cost nothing"),
        ({"tiers": [{"above": 200_000, "input": 1}]}, "tier: give above, input, output"),
        ({"role": "judge"}, "one of operator, teacher, student"),
    ],
)
def test_what_is_refused_is_named_and_no_key_is_repeated(
    models: Models, changed: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says) as refused:
        models.add(LOCAL_OWNER, **{**GIVEN, **changed})
    assert "sk-live" not in str(refused.value)
    assert models.list_all(LOCAL_OWNER) == []


def test_a_price_is_rounded_up_and_no_nonsense_is_one() -> None:
    assert micro("--price", "2.5000001") == 2_500_001
    assert (micro("--price", "1e-9"), micro("--price", None)) == (1, None)
    for text in ("nan", "Infinity", "1E+999999", "two"):
        with pytest.raises(InvalidRequest, match="--price: .* is not an amount"):
            micro("--price", text)


def test_a_new_price_does_not_lift_a_block_and_confirming_does(
    models: Models, store: Store
) -> None:
    models.add(LOCAL_OWNER, **GIVEN)
    change(store, lambda row: setattr(row, "blocked", "PRICE_BOUND_VIOLATED: too much"))
    again = models.add(LOCAL_OWNER, **{**GIVEN, "output_micro": 20_000_000})
    assert (again.output_usd, again.blocked) == ("20.00", "PRICE_BOUND_VIOLATED: too much")
    with pytest.raises(Conflict, match="teacher_model: PRICE_BOUND_VIOLATED"):
        check(store, teacher_model="lab/big")
    assert models.confirm(LOCAL_OWNER, "lab/big").blocked is None


def test_a_run_needs_models_with_a_price_and_a_key(
    models: Models, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    models.add(LOCAL_OWNER, **GIVEN)
    with pytest.raises(InvalidRequest, match="operator_model: 'nobody' has no known price"):
        check(store, operator_model="nobody")
    with pytest.raises(InvalidRequest, match="operator_model: model lab/big: .*LAB_KEY") as missing:
        check(store, operator_model="lab/big")
    assert missing.value.reason == "KEY_MISSING"
    monkeypatch.setenv("LAB_KEY", "k")
    check(store, operator_model="lab/big")
    change(store, lambda row: setattr(row, "output_micro_per_mtok", 0))
    with pytest.raises(InvalidRequest, match="costs nothing as it was added") as free:
        check(store, operator_model="lab/big")
    assert free.value.reason == "PRICE_UNKNOWN"
    near = {**GIVEN, "base_url": "http://127.0.0.1:1/v1", "local": True, "key_env": None}
    models.add(LOCAL_OWNER, **near | {"input_micro": 0, "output_micro": 0})
    check(store, operator_model="lab/big")


def test_a_model_added_for_one_role_is_refused_in_another(models: Models, store: Store) -> None:
    near = {**GIVEN, "base_url": "http://127.0.0.1:1/v1", "local": True, "key_env": None}
    models.add(LOCAL_OWNER, **near | {"role": "teacher"})
    check(store, teacher_model="lab/big")
    with pytest.raises(Conflict, match="lab/big was added as teacher alone"):
        check(store, operator_model="lab/big")


def test_a_model_that_is_not_there_is_not_found(models: Models) -> None:
    for do in (models.test, models.remove, models.confirm):
        with pytest.raises(NotFound, match="no model x behind the gateway; there are none"):
            do(LOCAL_OWNER, "x")


def test_a_test_of_a_model_that_cannot_be_reached_costs_nothing(
    models: Models, store: Store
) -> None:
    near = {**GIVEN, "base_url": "http://127.0.0.1:1/v1", "local": True, "key_env": None}
    models.add(LOCAL_OWNER, **near)
    told = models.test(LOCAL_OWNER, "lab/big")
    assert "cannot be reached at http://127.0.0.1:1/v1" in told["error"]
    assert (told["status"], told["cost_usd"]) == ("failed", "0.00")


def test_a_projects_caps_are_set_one_by_one_and_taken_away_again(
    models: Models, store: Store
) -> None:
    def cap(**caps: float | None) -> dict[str, Any]:
        told: dict[str, Any] = store.write(lambda s: set_caps(s, LOCAL_OWNER, "local", caps))
        return told["caps"]

    nothing = {"max_model_cost_usd": None, "max_cost_usd": None, "max_model_requests": None}
    assert cap() == nothing
    assert cap(max_cost_usd=5, max_model_requests=100.0) == {
        **nothing,
        "max_cost_usd": "$5.00",
        "max_model_requests": 100,
    }
    assert cap(max_model_requests=None)["max_cost_usd"] == "$5.00"
    with store.read() as session:
        assert session.get_one(Account, "project:prj_local").total_cap == 5_000_000
    with pytest.raises(InvalidRequest, match="positive"):
        cap(max_cost_usd=-1)
    with pytest.raises(NotFound):
        store.write(lambda s: set_caps(s, LOCAL_OWNER, "nowhere", {}))


def change(store: Store, how: Callable[[GatewayModel], object]) -> None:
    def write(session: Session) -> None:
        row = session.get_one(GatewayModel, "lab/big")
        how(row)
        session.add(row)

    store.write(write)
