"""Runs with rounds, candidates and checkpoints, written by hand."""

from data.files import write_manifest
from data.home import Home
from data.store import Store
from data.tables import Checkpoint, Round, Run, Version


def add_run(store: Store, run: str, state: str, best: str | None = None) -> None:
    row = run_row(run, state, best)
    store.write(lambda s: s.add(row))


def run_row(run: str, state: str, best: str | None = None) -> Run:
    """A run in a state, not written yet."""
    return Run(
        id=run,
        project_id="p",
        workspace_id="w",
        actor="owner",
        brief="b",
        domain="arith",
        mode="live",
        base_model="sim/student",
        secret="00",
        state=state,
        best_version=best,
    )


def add_candidates(store: Store, home: Home, run: str, names: list[str]) -> None:
    """Rounds 1, 2, ... of a run, each with the checkpoint of that name."""
    for number, name in enumerate(names, start=1):
        version = Version(
            project_id="p",
            run=run,
            name=f"candidate-{number}",
            role="candidate",
            round=number,
            base_model="sim/student",
            base_revision="r",
            adapter=name,
            harness="h",
            version_hash=name,
        )
        row = Round(
            project_id="p",
            run=run,
            number=number,
            start_version="base",
            candidate=version.name,
            outcome="completed",
        )
        store.write(lambda s, made=(version, row): s.add_all(made))  # type: ignore[misc]
        add_checkpoint(store, home, name, run)


def add_checkpoint(store: Store, home: Home, name: str, run: str | None = None) -> None:
    folder = home.checkpoints / name
    if folder.exists():
        return
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(bytes(1000))
    write_manifest(folder)
    row = Checkpoint(
        id=name, project_id="p", run=run, base_model="sim", base_revision="r", size_bytes=1000
    )
    store.write(lambda s: s.add(row))
