"""Which version a person means to deploy: a checkpoint, a version of a run, or a base model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, select

from app.caller import Caller
from app.checkpoints import item_of
from app.downloads import find_checkpoint, public_name
from app.errors import (
    CheckpointNotFound,
    CheckpointUnavailable,
    Conflict,
    InvalidField,
    ModelNotFound,
    NothingTrained,
)
from app.trainable import base_models
from data.files import read_manifest
from data.home import Home
from data.tables import Checkpoint, Harness, Version

SIMULATED = "sim/"
WAYS = 'give one of inputs.checkpoint, version ("RUN/candidate-1") and model (a base model)'


@dataclass(kw_only=True, slots=True, frozen=True)
class Target:
    """What is to be deployed, under its public name."""

    version: str  # "RUN/candidate-1", "RUN/base", or the name of a base model or checkpoint
    base_model: str
    adapter: str | None = None
    harness: str | None = None


def find_target(session: Session, caller: Caller, home: Home, spec: Mapping[str, Any]) -> Target:
    """The version that a spec names, real and whole."""
    inputs = spec.get("inputs") or {}
    if not isinstance(inputs, dict) or set(inputs) - {"checkpoint"}:
        raise InvalidField("spec.inputs: it has checkpoint and nothing else")
    given = {"version": spec.get("version"), "model": spec.get("model")}
    given["checkpoint"] = inputs.get("checkpoint")
    named = [(kind, value) for kind, value in given.items() if value is not None]
    if len(named) != 1 or not is_name(named[0][1], 400):
        raise InvalidField(f"spec: {WAYS}")
    kind, value = named[0]
    if kind == "model":
        return _base(home, value)
    if kind == "version" and value in base_models(home):
        return _base_alone(session, caller, home, value)
    version = _version(session, caller, value) if kind == "version" else None
    if version is None:
        version, _ = find_checkpoint(session, caller, home, value)
    return _of_version(session, home, version, value)


def names_another(session: Session, caller: Caller, home: Home, name: str, target: Target) -> bool:
    """Whether a name is that of a version, base model or checkpoint other than the target."""
    if name == target.version:
        return False
    try:
        found = _trained(session, caller, home, name)
    except CheckpointUnavailable:
        return True
    other = found is not None and public_name(found) != target.version
    return other or name in base_models(home)


def _base_alone(session: Session, caller: Caller, home: Home, name: str) -> Target:
    """The base model of that name, unless something trained has it too."""
    twin = _trained(session, caller, home, name)
    if twin is not None:
        ways = f"model {name} for the base, or inputs.checkpoint {twin.adapter} for the adapter"
        raise Conflict(f"version: {name} is a base model and a trained version: write {ways}")
    return _base(home, name)


def _base(home: Home, name: str) -> Target:
    if name.startswith(SIMULATED):
        raise NothingTrained(f"model: {name} is simulated: there are no weights to deploy")
    if name not in base_models(home):
        there = ", ".join(sorted(base_models(home)))
        raise ModelNotFound(f"model: there is no base model {name}; there are {there}")
    return Target(version=name, base_model=name)


def _trained(session: Session, caller: Caller, home: Home, name: str) -> Version | None:
    """A version by its public name, or by a reference to its checkpoint."""
    try:
        return _version(session, caller, name) or find_checkpoint(session, caller, home, name)[0]
    except CheckpointNotFound:
        return None


def _version(session: Session, caller: Caller, name: str) -> Version | None:
    """A version by its public name, such as "sums-1/candidate-1"."""
    run, _, last = name.rpartition("/")
    query = select(Version).where(
        Version.project_id == caller.project_id, Version.run == run, Version.name == last
    )
    return session.exec(query).first() if run else None


def _of_version(session: Session, home: Home, version: Version, asked: str) -> Target:
    if version.simulated or version.base_model.startswith(SIMULATED):
        raise NothingTrained(
            f"{public_name(version)} is simulated: no weights were trained, so none can be deployed"
        )
    if _has_other_weights(home, version):
        raise Conflict(
            f"{asked} is of revision {version.base_revision} of {version.base_model}, which has "
            "other weights here now: add the earlier ones again under that name, or deploy another"
        )
    if version.adapter is not None:
        row = session.get(Checkpoint, version.adapter)
        if row is None or row.deleted_at is not None:
            raise CheckpointNotFound(
                f"the checkpoint of {asked} was deleted: choose another version"
            )
        if item_of(session, home, version) is None:
            raise CheckpointUnavailable(f"the files of {asked} are not whole on this server's disk")
    return Target(
        version=public_name(version),
        base_model=version.base_model,
        adapter=version.adapter,
        harness=version.harness,
    )


def _has_other_weights(home: Home, version: Version) -> bool:
    """Whether the base's name stands for other weights now; a base that is not there has none."""
    try:
        content = str(read_manifest(home.models / version.base_model)["content"])
    except ValueError:
        return False
    return not content.startswith(version.base_revision)


def harness_of(session: Session, target: Target) -> dict[str, Any] | None:
    """How the version was asked in its evaluation."""
    row = session.get(Harness, target.harness) if target.harness else None
    return dict(row.spec) if row is not None else None


def is_name(value: object, longest: int) -> bool:
    """Whether a value is a text of at most that many characters that is not blank."""
    return isinstance(value, str) and 0 < len(value.strip()) and len(value) <= longest
