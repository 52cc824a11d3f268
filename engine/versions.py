"""Versions of a run: base and candidates, each with the model and the harness that it is."""

from typing import Any

from sqlmodel import Session, select

from data.tables import Harness as HarnessRow
from data.tables import Run, Version
from engine.errors import ModelUnavailable
from engine.facts import RunFacts, Tools
from engine.identity import harness_hash, version_hash
from engine.models import registry, simulated
from engine.types import ModelRef, as_dict

BASE = "base"


def candidate_name(round_: int) -> str:
    """The name of the version that a round produces."""
    return f"candidate-{round_}"


def record_version(
    session: Session,
    run: RunFacts,
    name: str,
    model: ModelRef,
    *,
    round_: int | None = None,
    trained_rows: int | None = None,
) -> Version:
    """Write a version once, with its harness."""
    found = find_version(session, run.id, name)
    if found is not None:
        return found
    harness = run.config.harness
    if session.get(HarnessRow, harness_hash(harness)) is None:
        row = HarnessRow(id=harness_hash(harness), project_id=run.project_id, spec=as_dict(harness))
        session.add(row)
        session.flush()
    version = Version(
        project_id=run.project_id,
        run=run.id,
        name=name,
        role="baseline" if name == BASE else "candidate",
        round=round_,
        base_model=model.base,
        base_revision=model.revision,
        adapter=model.adapter_hash,
        harness=harness_hash(harness),
        version_hash=version_hash(model, harness),
        trained_rows=trained_rows,
        simulated=run.simulated,
    )
    session.add(version)
    return version


def find_version(session: Session, run: str, name: str) -> Version | None:
    """The version of that name in a run."""
    return session.exec(select(Version).where(Version.run == run, Version.name == name)).first()


def best_version(session: Session, run: str) -> Version:
    """The version that the next round starts from."""
    row = session.get_one(Run, run)
    version = find_version(session, run, row.best_version or BASE)
    assert version is not None, f"run {run} has no version {row.best_version}"
    return version


def describe(version: Version) -> dict[str, Any]:
    """A version as a plain part of a work description."""
    return {
        "name": version.name,
        "base": version.base_model,
        "base_revision": version.base_revision,
        "adapter": version.adapter,
        "hash": version.version_hash,
    }


def model_of(tools: Tools, version: dict[str, Any]) -> ModelRef:
    """The weights of a described version, found on this machine.

    ModelUnavailable when other weights than the version's are there under its base's name.
    """
    base = tools.model(version["base"])
    made_on = version.get("base_revision", base.revision)
    if made_on != base.revision:
        raise ModelUnavailable(
            f"the base model {base.base} has other weights now, revision {base.revision}, than "
            f"before, {made_on}: add the earlier ones again under this name, or start a new run"
        )
    if version["adapter"] is None:
        return base
    if base.base in simulated.MODELS:
        return simulated.with_adapter(base, tools.home.checkpoints / version["adapter"])
    return registry.with_adapter(base, tools.home.checkpoints / version["adapter"])
