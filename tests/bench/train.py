"""Target tokens a second of our LoRA step against TRL's SFTTrainer on rows of mixed lengths.

TRL gets an environment of its own on first use (PAWL_BENCH_HOME, else ~/.cache/pawl/bench): trl and
what it needs beside torch, transformers and peft, which it shares with .venv, so that both sides
compute with the same builds. Both train the embedded model once over the same rows in 8 steps, in
one precision, from the same initial adapter at the same learning rates; the first step warms up.
The losses of both adapters on 64 other rows must agree within 1 %.
"""

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app import set_up
from engine.models.registry import ensure_embedded
from tests.bench.harness import (
    BenchFailed,
    Goal,
    Measured,
    Ratio,
    Side,
    compare,
    finish,
    last_line,
    module,
    options,
    run,
    say,
)
from tests.bench.train_sizes import QUICK_ROWS, ROWS

TRL = "trl==1.16.*"
GOAL = Goal(at_least=1.5)
GROUPED_GOAL = Goal(at_least=1.1)
GROUPED_PAIRS = 3
LOSS_TOLERANCE = 0.01
PATIENCE_SECONDS = 3600.0
FAST_BFLOAT16 = ("avx512_bf16", "amx_bf16")  # as a CPU's flags name it

Losses = Callable[[str, str], dict[str, float]]  # on held-out rows, by adapter folder


def main(argv: list[str]) -> int:
    """Compare and print; 0 when both goals are reached."""
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default=fast_precision())
    args = parser.parse_args(argv)
    rows = QUICK_ROWS if args.quick else ROWS
    trl = trl_python()
    model = ensure_embedded(bench_home() / "models", set_up.MODEL_FILE, set_up.MODEL_SHA256).path
    with tempfile.TemporaryDirectory(prefix="pawl-bench-") as folder:
        last_line(module("train_rows", model, folder, str(rows)), {}, PATIENCE_SECONDS)
        race = Race(place=(model, folder, args.precision), trl=trl)
        first = race.against("TRL, its own batching", "sequential", args.pairs, race.differ)
        pairs = min(args.pairs, GROUPED_PAIRS)
        second = race.against("TRL, grouped by length", "group_by_length", pairs, lambda *_: None)
        losses = [race.losses(ratio.last) for ratio in (first, second)]
    code = finish(
        "train", args, [first, second], rows=rows, precision=args.precision, losses=losses
    )
    print(
        "\n".join(about(ratio, *loss) for ratio, loss in zip((first, second), losses, strict=True))
    )
    return code


@dataclass(kw_only=True, slots=True, frozen=True)
class Race:
    """The embedded model, a folder with rows and a precision; and TRL's Python."""

    place: tuple[str, str, str]
    trl: str

    def against(
        self,
        name: str,
        order: str,
        pairs: int,
        differ: Callable[[Measured, Measured], str | None],
    ) -> Ratio:
        """Our training against TRL's with its rows in one order."""
        theirs = module("train_trl", *self.place, order, python=self.trl)
        return compare(
            Side(name="Pawl", command=module("train_ours", *self.place), seconds=PATIENCE_SECONDS),
            Side(name=name, command=theirs, seconds=PATIENCE_SECONDS),
            value="targets_per_second",
            unit="target tokens/s",
            goal=GOAL if order == "sequential" else GROUPED_GOAL,
            pairs=pairs,
            differ=differ,
            warm_up=False,
            again=pairs > 1,
        )

    def differ(self, one: Measured, other: Measured) -> str | None:
        """How the losses of two adapters on held-out rows differ, or None."""
        ours, theirs = self.losses((one, other))
        if abs(ours - theirs) > LOSS_TOLERANCE * theirs:
            return f"held-out loss {ours:.4f} and {theirs:.4f}"
        return None

    def losses(self, pair: tuple[Measured, Measured]) -> tuple[float, float]:
        """Held-out losses of the adapters that two sides wrote; equal adapters are read once."""
        model, folder, _ = self.place
        ours, theirs = (loss_of(model, folder, one["adapter"], one["sha256"]) for one in pair)
        return ours, theirs


@functools.cache
def loss_of(model: str, folder: str, adapter: str, sha256: str) -> float:
    """The held-out loss of the adapter in a folder, whose weights have that hash."""
    told = last_line(module("train_loss", model, folder, adapter), {}, PATIENCE_SECONDS)
    loss: float = told["loss"]
    return loss


def about(ratio: Ratio, ours: float, theirs: float) -> str:
    """What a pair came to beside its time."""
    one, other = ratio.last
    return (
        f"{ratio.theirs}: held-out loss {ours:.4f} and {theirs:.4f}, padding there "
        f"{100 * other['padding']:.0f}%, {one['tokens_per_second']:.0f} and "
        f"{other['tokens_per_second']:.0f} tokens/s with prompts, "
        f"peak memory {one['peak_gb']:.1f} and {other['peak_gb']:.1f} GB"
    )


def trl_python() -> str:
    """The Python of TRL's environment, which is made when it is not there or not for this .venv."""
    folder = bench_home() / "trl"
    python, stamp = folder / "bin" / "python", folder / "pawl-ready"
    wanted = f"{TRL} {set_up.wanted()} {sysconfig.get_path('purelib')}"
    if not stamp.is_file() or stamp.read_text() != wanted:
        say(f"Making an environment for TRL in {folder}: once, some 300 MB, needs the network")
        shutil.rmtree(folder, ignore_errors=True)
        checked([sys.executable, "-m", "venv", str(folder)])
        share_packages(folder)
        packages = ["--constraint", str(set_up.LOCKED), TRL]
        checked([str(python), "-m", "pip", "install", "--quiet", *packages])
        stamp.write_text(wanted)
    return str(python)


def share_packages(folder: Path) -> None:
    """Let the environment in `folder` find the packages of this one, behind its own."""
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "pawl.pth").write_text(sysconfig.get_path("purelib") + "\n")


def checked(command: list[str]) -> None:
    """Run a command; BenchFailed with its words when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchFailed(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-3000:]}")


def bench_home() -> Path:
    """Where benchmarks keep what is made once."""
    given = os.environ.get("PAWL_BENCH_HOME") or "~/.cache/pawl/bench"
    folder = Path(given).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fast_precision() -> str:
    """bfloat16 where this machine's CPU has instructions for it, else float32."""
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "float32"
    return "bfloat16" if any(name in flags for name in FAST_BFLOAT16) else "float32"


if __name__ == "__main__":
    run(main)
