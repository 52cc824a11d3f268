"""Versions of a run or a job: each is a model, with the checkpoint that made it, and a harness."""

from typing import Any

from sqlmodel import Session, select

from data.tables import Checkpoint, Run, Version
from data.tables import Harness as HarnessRow
from engine.errors import ModelUnavailable
from engine.facts import Facts, RunFacts, Tools
from engine.identity import harness_hash, version_hash
from engine.models import registry, simulated
from engine.types import Harness, ModelRef, as_dict

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
    """Write a version of a run once."""
    found = find_version(session, run.id, name)
    if found is not None:
        return found
    harness = run.config.harness
    return write_version(
        session, run, name, model, harness, round_=round_, trained_rows=trained_rows
    )


def write_version(
    session: Session,
    facts: Facts,
    name: str,
    model: ModelRef,
    harness: Harness,
    *,
    round_: int | None = None,
    trained_rows: int | None = None,
) -> Version:
    """Write a version with its harness."""
    if session.get(HarnessRow, harness_hash(harness)) is None:
        spec = as_dict(harness)
        session.add(HarnessRow(id=harness_hash(harness), project_id=facts.project_id, spec=spec))
        session.flush()
    version = Version(
        project_id=facts.project_id,
        run=facts.owner["run"],
        name=name,
        role="baseline" if name == BASE else "candidate",
        round=round_,
        base_model=model.base,
        base_revision=model.revision,
        adapter=model.adapter_hash,
        harness=harness_hash(harness),
        version_hash=version_hash(model, harness),
        trained_rows=trained_rows,
        simulated=facts.simulated,
    )
    session.add(version)
    return version


def record_checkpoint(
    session: Session,
    facts: Facts,
    model: ModelRef,
    training: dict[str, Any],
    size: int,
    *,
    job: str | None,
    round_: int | None = None,
) -> None:
    """Write the checkpoint that holds a model's adapter, once; one that was deleted is back."""
    assert model.adapter_hash is not None
    known = session.get(Checkpoint, model.adapter_hash)
    if known is None:
        known = Checkpoint(
            id=model.adapter_hash,
            project_id=facts.project_id,
            run=facts.owner["run"],
            round=round_,
            job=job,
            base_model=model.base,
            base_revision=model.revision,
            size_bytes=size,
            training=training,
            simulated=facts.simulated,
        )
    elif known.deleted_at is not None:
        # An equal training has made it once more; a name that was given to the deleted one is gone.
        known.name, known.deleted_at = None, None
    session.add(known)


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
