"""A home with a version of a run that can be deployed: an adapter of random numbers on a base."""

import json
from pathlib import Path

from sqlmodel import Session

from app.access import Access
from data.files import write_manifest
from data.home import Home, open_home
from data.store import Store
from data.tables import Checkpoint, Harness, Job, Run, Version
from engine.types import ModelRef

RUN, PROJECT = "sums-1", "prj_local"
SYSTEM = "Answer with one word."
LAYER = "base_model.model.model.layers.0.self_attn.q_proj"
WIDTH = 576  # of the embedded model


def lay_version(home: Path, base: ModelRef) -> str:
    """Write run sums-1 with base, candidate-1 and a simulated candidate-2; the checkpoint's id."""
    opened = open_home(home)
    adapter = write_adapter(opened, base)
    store = Store(opened.database)
    Access(store, opened).ensure_owner()
    store.write(lambda s: _rows(s, base, adapter))
    store.close()
    return adapter


def write_adapter(home: Home, base: ModelRef, seed: int = 0) -> str:
    """An adapter that visibly changes what the embedded model says."""
    import numpy
    from safetensors.numpy import save_file

    numbers = numpy.random.default_rng(seed)
    folder = home.checkpoints / f"made-{seed}"
    folder.mkdir(parents=True)
    shapes = {"lora_A": (8, WIDTH), "lora_B": (WIDTH, 8)}
    tensors = {
        f"{LAYER}.{part}.weight": numbers.normal(scale=0.2, size=shape).astype("float32")
        for part, shape in shapes.items()
    }
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    name = write_manifest(folder, {"base": base.base, "base_revision": base.revision})[:16]
    folder.rename(home.checkpoints / name)
    return name


def _rows(session: Session, base: ModelRef, adapter: str) -> None:
    run = Run(
        id=RUN,
        project_id=PROJECT,
        workspace_id="ws_local",
        actor="owner",
        brief="learn sums",
        domain="arith",
        mode="live",
        base_model=base.base,
        state="finished",
        secret="00" * 32,
        rounds_target=1,
        best_version="candidate-1",
    )
    spec = {"system": SYSTEM, "max_tokens": 16, "temperature": 0.0, "attempts": 1}
    session.add(run)
    session.add(Harness(id="h-1", project_id=PROJECT, spec=spec))
    session.flush()
    job = Job(id=f"{RUN}-r1", project_id=PROJECT, run=RUN, round=1, type="train")
    job.status = "completed"
    session.add(job)
    made = {"base": None, "candidate-1": adapter, "candidate-2": None}
    for name, weights in made.items():
        version = Version(
            project_id=PROJECT,
            run=RUN,
            name=name,
            role="baseline" if name == "base" else "candidate",
            round=1 if weights else None,
            base_model=base.base,
            base_revision=base.revision,
            adapter=weights,
            harness="h-1",
            version_hash=f"v-{name}",
            simulated=name == "candidate-2",
        )
        session.add(version)
    checkpoint = Checkpoint(
        id=adapter,
        project_id=PROJECT,
        run=RUN,
        round=1,
        base_model=base.base,
        base_revision=base.revision,
        size_bytes=1,
    )
    session.add(checkpoint)
