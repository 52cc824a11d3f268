"""Checkpoints of a training under way: written whole, found again, thrown away when superseded."""

import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.disk import room
from data.files import publish, verify_manifest, write_manifest
from engine.errors import DiskFull
from engine.models.registry import check_weights_folder
from engine.types import TrainJob

if TYPE_CHECKING:
    import torch

KEPT = 2  # the newest, and one to fall back to
ADAM_BYTES = 12  # per LoRA parameter: itself and two moments, in float32
SPARE_BYTES = 1024**3


@dataclass(kw_only=True, slots=True)
class Progress:
    """What a training remembers beside its tensors; counts cover all sittings together."""

    step: int = 0
    tokens: int = 0
    target_tokens: int = 0
    loss_first: float = 0.0
    loss_last: float = 0.0
    seconds: float = 0.0


def save(
    state_dir: Path, job_key: str, progress: Progress, tensors: "Mapping[str, torch.Tensor]"
) -> None:
    """Write the checkpoint of a step aside, then put it in place, then drop the oldest."""
    from safetensors.torch import save_file

    state_dir.mkdir(parents=True, exist_ok=True)
    aside = state_dir / f"step.tmp-{uuid.uuid4().hex[:8]}"
    aside.mkdir()
    try:
        contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, aside / "state.safetensors")
        record = {"job": job_key, "progress": asdict(progress)}
        (aside / "progress.json").write_text(json.dumps(record, sort_keys=True))
        write_manifest(aside)
        publish(aside, state_dir / f"step-{progress.step:06d}")
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    for old in _folders(state_dir)[KEPT:]:
        shutil.rmtree(old)


def newest(
    state_dir: Path, job_key: str, say: Any = print
) -> "tuple[Progress, dict[str, torch.Tensor]] | None":
    """The newest complete checkpoint of this very job, or None; others are said and passed over."""
    from safetensors.torch import load_file

    for folder in _folders(state_dir):
        try:
            verify_manifest(folder)
            record = json.loads((folder / "progress.json").read_text())
        except ValueError as error:
            say(f"checkpoint passed over: {error}")
            shutil.rmtree(folder)
            continue
        if record["job"] == job_key:
            return Progress(**record["progress"]), load_file(folder / "state.safetensors")
        say(f"checkpoint passed over: {folder} belongs to another job")
    return None


def _folders(state_dir: Path) -> list[Path]:
    return sorted(state_dir.glob("step-[0-9]*"), reverse=True)


def collect(
    parameters: "dict[str, torch.nn.Parameter]", optimizer: "torch.optim.Optimizer"
) -> "dict[str, torch.Tensor]":
    """Everything that the next step depends on, as named tensors."""
    import torch

    tensors: dict[str, torch.Tensor] = {"rng.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["rng.cuda"] = torch.cuda.get_rng_state()
    for name, parameter in parameters.items():
        tensors[f"lora/{name}"] = parameter.data
        for key, value in optimizer.state[parameter].items():
            tensors[f"{key}/{name}"] = value
    return tensors


def restore(
    parameters: "dict[str, torch.nn.Parameter]",
    optimizer: "torch.optim.Optimizer",
    tensors: "dict[str, torch.Tensor]",
) -> None:
    """Put back what `collect` took."""
    import torch

    torch.set_rng_state(tensors["rng.cpu"])
    if "rng.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["rng.cuda"])
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[f"lora/{name}"])
            for key in ("step", "exp_avg", "exp_avg_sq"):
                value = tensors.get(f"{key}/{name}")
                if value is not None:
                    on = "cpu" if key == "step" else parameter.device
                    optimizer.state[parameter][key] = value.to(on)


def clear_aside(folder: Path) -> None:
    """Remove what an interrupted write left: a folder with `.tmp-` in its name is never complete."""
    for left in folder.glob("*.tmp-*"):
        shutil.rmtree(left, ignore_errors=True)


def check_space(job: TrainJob, parameters: int) -> None:
    """DiskFull before the start when two checkpoints and a spare GiB would not fit."""
    need = 2 * ADAM_BYTES * parameters + SPARE_BYTES
    for folder in (Path(job.state_dir), Path(job.out_dir)):
        folder.mkdir(parents=True, exist_ok=True)
        found = room(folder)
        if found.free < need:
            raise DiskFull(
                f"training needs {need / 1e9:.1f} GB and {folder} has {found}: "
                "free some space, then resume"
            )


def save_adapter(
    job: TrainJob,
    tensors: "Mapping[str, torch.Tensor]",
    config: Mapping[str, Any],
    about: Mapping[str, Any],
) -> tuple[Path, str]:
    """Write the finished adapter as `out_dir/<hash>`; the folder, and the hash that names it."""
    from safetensors.torch import save_file

    out_dir = Path(job.out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    aside = out_dir / f"adapter.tmp-{uuid.uuid4().hex[:8]}"
    aside.mkdir()
    try:
        contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, aside / "adapter_model.safetensors", metadata={"format": "pt"})
        text = json.dumps(config, indent=1, sort_keys=True)
        (aside / "adapter_config.json").write_text(text)
        content = write_manifest(aside, about)
        final = out_dir / content[:16]
        publish(aside, final)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    check_weights_folder(final)
    return final, content[:16]
