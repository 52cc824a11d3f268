"""Models behind the gateway: added with their price, listed, tried, removed, confirmed."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from sqlmodel import Session, col, select

from app.billing import usd
from app.caller import Caller
from app.errors import Conflict, InvalidRequest, NotFound
from data.lifecycle import ENDED
from data.model_keys import KeyMissing, read_key
from data.store import Store
from data.tables import GatewayModel, Run, now

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
ROLES = ("operator", "teacher", "student")
SIMULATED = "sim/"
DEAREST = 10**12  # micro-dollars per million tokens
SEATS = ("operator_model", "teacher_model", "student_model")

Commands = dict[str, Callable[..., Any]]


@dataclass(kw_only=True, slots=True, frozen=True)
class GatewayPort:
    """What only the engine can do: say why an address is refused, and try a model.

    `check_address(url, local)` raises a ValueError; `try_model(project, model)` makes one paid call
    and gives its text, status, cost in micro-dollars and what went wrong.
    """

    check_address: Callable[[str, bool], None]
    try_model: Callable[[str, str], dict[str, Any]]


class ModelInfo(BaseModel):
    """A model as people see it; prices are USD per million tokens, its key is named, not told."""

    name: str
    role: str | None
    base_url: str | None
    key: str | None  # "$VARIABLE" or a file
    key_missing: str | None  # why a call would find no key
    key_word: str | None  # the same in a word or two
    local: bool
    simulated: bool
    input_usd: str
    output_usd: str
    cached_usd: str | None
    tiers: list[dict[str, int]]
    blocked: str | None


class Models:
    """The registry of one server's gateway. Only an administrator sees or changes it."""

    def __init__(self, store: Store, port: GatewayPort) -> None:
        self._store, self._port = store, port

    def add(self, caller: Caller, **given: Any) -> ModelInfo:
        """Add a model, or change one of that name; what was settled before stays as it was."""
        caller.need("admin")
        row = self._checked(**given)

        def change(session: Session) -> ModelInfo:
            kept = session.get(GatewayModel, row.name)
            if kept is not None:
                row.created_at, row.blocked = kept.created_at, kept.blocked
            return _info(session.merge(row))

        return self._store.write(change)

    def list_all(self, caller: Caller) -> list[ModelInfo]:
        """Every model by name."""
        caller.need("admin")
        with self._store.read() as session:
            rows = session.exec(select(GatewayModel).order_by(col(GatewayModel.name)))
            return [_info(row) for row in rows]

    def test(self, caller: Caller, name: str) -> dict[str, Any]:
        """One tiny call at the project's cost: what came back, and what it cost in USD."""
        caller.need("admin")
        with self._store.read() as session:
            _find(session, name)
        told = self._port.try_model(caller.project_id, name)
        return told | {"cost_usd": usd(told["cost"])}

    def remove(self, caller: Caller, name: str) -> ModelInfo:
        """Take a model out; Conflict while a run that has not ended uses it."""
        caller.need("admin")

        def change(session: Session) -> ModelInfo:
            row = _find(session, name)
            if row.simulated:
                raise Conflict(f"{name} is simulated and always there")
            for run in session.exec(select(Run).where(col(Run.state).not_in(ENDED))):
                if name in {run.config.get(seat) for seat in SEATS}:
                    raise Conflict(f"run {run.id} uses {name}: stop it first")
            session.delete(row)
            return _info(row)

        return self._store.write(change)

    def confirm(self, caller: Caller, name: str) -> ModelInfo:
        """Let a model be called again that cost more than it could."""
        caller.need("admin")

        def change(session: Session) -> ModelInfo:
            row = _find(session, name)
            row.blocked = None
            session.add(row)
            return _info(row)

        return self._store.write(change)

    def _checked(
        self,
        *,
        name: str,
        base_url: str,
        input_micro: int,
        output_micro: int,
        cached_micro: int | None = None,
        key_env: str | None = None,
        key_file: str | None = None,
        local: bool = False,
        role: str | None = None,
        tiers: list[dict[str, int]] | None = None,
    ) -> GatewayModel:
        if not NAME.fullmatch(name) or name.startswith(SIMULATED):
            raise InvalidRequest(f"name: {name!r} cannot be the name of a model here")
        if role is not None and role not in ROLES:
            raise InvalidRequest(f"role: give one of {', '.join(ROLES)}")
        _check_key(key_env, key_file, local)
        base = {"input": input_micro, "output": output_micro, "cached": cached_micro}
        _check_prices(base, tiers or [], local)
        try:
            self._port.check_address(base_url, local)
        except ValueError as refused:
            raise InvalidRequest(f"base_url: {refused}") from None
        return GatewayModel(
            name=name,
            base_url=base_url,
            key_env=key_env,
            key_file=key_file,
            local=local,
            role=role,
            input_micro_per_mtok=input_micro,
            output_micro_per_mtok=output_micro,
            cached_micro_per_mtok=cached_micro,
            tiers=tiers or [],
            created_at=now(),
        )


def commands(models: Models, owner: Caller) -> Commands:
    """The administration commands of the registry; results are plain JSON."""
    return {
        "model.add": lambda **given: models.add(owner, **given).model_dump(),
        "model.list": lambda: [one.model_dump() for one in models.list_all(owner)],
        "model.test": lambda name: models.test(owner, name),
        "model.remove": lambda name: models.remove(owner, name).model_dump(),
        "model.confirm": lambda name: models.confirm(owner, name).model_dump(),
    }


def check_models(session: Session, named: Mapping[str, str]) -> None:
    """Refuse to start a run with models that cannot be paid for or called; the text names each.

    `named` has the names by the field that gives them.
    """
    for field, name in named.items():
        row = session.get(GatewayModel, name)
        if row is None:
            known = sorted(session.exec(select(GatewayModel.name)))
            text = f"{field}: {name!r} has no known price here; known are {known}"
            raise InvalidRequest(text, "PRICE_UNKNOWN")
        if not (row.simulated or row.local) and not _is_priced(row):
            text = f"{field}: {name} costs nothing as it was added; add it again with its price"
            raise InvalidRequest(text, "PRICE_UNKNOWN")
        if row.blocked is not None:
            raise Conflict(f"{field}: {row.blocked}", "PRICE_BOUND_VIOLATED")
        if row.role not in (None, field.removesuffix("_model")):
            text = f"{field}: {name} was added as {row.role} alone; add it again without its role"
            raise Conflict(text, "MODEL_ROLE")
        try:
            read_key(row)
        except KeyMissing as missing:
            raise InvalidRequest(f"{field}: {missing}", "KEY_MISSING") from None


def _is_priced(row: GatewayModel) -> bool:
    return row.input_micro_per_mtok > 0 and row.output_micro_per_mtok > 0


def _check_key(key_env: str | None, key_file: str | None, local: bool) -> None:
    """One place for the key, by name. What was given is not repeated: it may be the key itself."""
    if key_env is not None and key_file is not None:
        raise InvalidRequest("key: give the variable or the file, not both")
    if key_env is not None and not VARIABLE.fullmatch(key_env):
        raise InvalidRequest(
            "key_env: give the name of an environment variable, never the key itself"
        )
    if key_file is not None and not key_file.startswith("/"):
        raise InvalidRequest("key_file: give a whole path, from / on")
    if key_env is None and key_file is None and not local:
        raise InvalidRequest("key: name the variable or the file that holds it")


def _check_prices(
    base: Mapping[str, int | None], tiers: Sequence[Mapping[str, int]], local: bool
) -> None:
    needed = {"above", "input", "output"}
    named = dict(base)
    for tier in tiers:
        if not needed <= set(tier) <= needed | {"cached"} or tier["above"] < 0:
            raise InvalidRequest("tier: give above, input, output and, where it has one, cached")
        named |= {f"{kind} above {tier['above']}": tier[kind] for kind in tier if kind != "above"}
    for kind, micro in named.items():
        if micro is not None and not 0 <= micro <= DEAREST:
            raise InvalidRequest(f"{kind}: give a price from 0 to {DEAREST // 10**6} USD")
        if micro == 0 and not local:
            raise InvalidRequest(f"{kind}: only a --local model may cost nothing", "PRICE_UNKNOWN")


def _find(session: Session, name: str) -> GatewayModel:
    row = session.get(GatewayModel, name)
    if row is None:
        known = ", ".join(sorted(session.exec(select(GatewayModel.name)))) or "none"
        raise NotFound(f"no model {name} behind the gateway; there are {known}")
    return row


def _info(row: GatewayModel) -> ModelInfo:
    missing, word = None, None
    try:
        read_key(row)
    except KeyMissing as error:
        missing, word = str(error), error.word
    cached = row.cached_micro_per_mtok
    return ModelInfo(
        name=row.name,
        role=row.role,
        base_url=row.base_url,
        key=f"${row.key_env}" if row.key_env else row.key_file,
        key_missing=missing,
        key_word=word,
        local=row.local,
        simulated=row.simulated,
        input_usd=usd(row.input_micro_per_mtok),
        output_usd=usd(row.output_micro_per_mtok),
        cached_usd=None if cached is None else usd(cached),
        tiers=row.tiers,
        blocked=row.blocked,
    )
