"""Simulated models and a simulated worker: the same loop without weights, labelled wherever shown.

Their answers are drawn by a hash of who is asked what, with a stated accuracy, so that a run with
the same seed has the same answers. They solve nothing: a right answer is the worked one they are
handed, and no real model is ever handed it.
"""

import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from data.files import publish, write_durable, write_manifest
from data.tables import GatewayModel
from engine.errors import GatewayFailed, Interrupted, ModelUnavailable
from engine.models.registry import check_weights_folder, put_back
from engine.types import Answer, Ask, ModelRef, Stop, TrainJob, TrainProgress, TrainResult

STUDENT = "sim/student"
REVISION = "simulated-1"
BATCH = 20


@dataclass(kw_only=True, slots=True, frozen=True)
class SimulatedModel:
    """A stand-in behind the gateway: how often it is right, and its price per million tokens."""

    accuracy: float
    input_micro_per_mtok: int
    output_micro_per_mtok: int


MODELS: dict[str, SimulatedModel] = {
    STUDENT: SimulatedModel(
        accuracy=0.55, input_micro_per_mtok=100_000, output_micro_per_mtok=400_000
    ),
    "sim/operator": SimulatedModel(
        accuracy=1.0, input_micro_per_mtok=3_000_000, output_micro_per_mtok=15_000_000
    ),
    "sim/teacher": SimulatedModel(
        accuracy=0.9, input_micro_per_mtok=1_000_000, output_micro_per_mtok=5_000_000
    ),
}

UNTRAINED = 0.25  # how often the simulated student is right before training
GUARD = 0.8
ROWS_TO_LEARN = 120.0  # rows after which about two thirds of what is missing is learned
MOST = 0.95


def gateway_rows() -> list[GatewayModel]:
    """The simulated models as entries of the gateway's price list."""
    return [
        GatewayModel(
            name=name,
            role=name.removeprefix("sim/"),
            input_micro_per_mtok=model.input_micro_per_mtok,
            output_micro_per_mtok=model.output_micro_per_mtok,
            simulated=True,
        )
        for name, model in MODELS.items()
    ]


def answer(model: str, ask: Ask, pace_seconds: float) -> Answer:
    """One answer of a simulated gateway model, after its stated pace."""
    if model not in MODELS:
        raise GatewayFailed(f"{model} is not a simulated model, and remote ones are not set up")
    time.sleep(pace_seconds)
    if model == "sim/operator":
        return _said(ask, _plan(ask))
    right = chance(model, ask.key, str(ask.seed)) < MODELS[model].accuracy
    return _said(ask, _text(ask, right))


class SimulatedWorker:
    """The worker's twin: skills instead of weights, training raises them with the rows seen."""

    name = "simulated"
    simulated = True

    def __init__(self, pace_seconds: float) -> None:
        self._pace = pace_seconds

    def generate(
        self,
        model: ModelRef,
        asks: Sequence[Ask],
        on_batch: Callable[[list[Answer]], None],
        stop: Stop,
    ) -> None:
        """Answer in batches; right as often as the version's skill in the family says."""
        skills = _skills(model)
        for start in range(0, len(asks), BATCH):
            if stop():
                raise Interrupted("stopped between two batches")
            batch = asks[start : start + BATCH]
            time.sleep(self._pace * len(batch))
            on_batch([self._answer(model, ask, skills) for ask in batch])

    def train(
        self, job: TrainJob, on_progress: Callable[[TrainProgress], None], stop: Stop
    ) -> TrainResult:
        """Write an adapter folder that holds skills; the same rows give the same adapter."""
        rows = [json.loads(line) for line in Path(job.rows_file).read_text().splitlines()]
        skills = _learned(_skills(job.model), Counter(row["family"] for row in rows))
        steps = max(1, math.ceil(len(rows) / job.settings.batch_size))
        for step in range(1, steps + 1):
            if stop():
                raise Interrupted("stopped between two steps")
            time.sleep(self._pace)
            on_progress(TrainProgress(step=step, steps=steps, loss=_loss(step), seconds=0.0))
        folder, name = _write_adapter(Path(job.out_dir), job.model, skills)
        return TrainResult(
            adapter_dir=str(folder),
            adapter_hash=name,
            steps=steps,
            rows_used=len(rows),
            tokens=0,
            target_tokens=0,
            loss_first=_loss(1),
            loss_last=_loss(steps),
            seconds=0.0,
            batch_size=job.settings.batch_size,
        )

    def close(self) -> None:
        """Nothing is kept running."""

    def _answer(self, model: ModelRef, ask: Ask, skills: dict[str, float]) -> Answer:
        # One draw for all versions: a version with more skill keeps what a lesser one had right.
        right = chance(ask.key, str(ask.seed)) < _skill(ask.family, skills)
        return _said(ask, _text(ask, right))


def model_ref() -> ModelRef:
    """The simulated student as a base model."""
    return ModelRef(base=STUDENT, path="", revision=REVISION)


def with_adapter(base: ModelRef, folder: Path) -> ModelRef:
    """The simulated student with a simulated adapter, whose files are checked as a real one's."""
    check_weights_folder(folder, put_back(folder))
    return replace(base, adapter=str(folder), adapter_hash=folder.name)


def chance(*words: str) -> float:
    """A number in [0, 1) that follows from the words alone."""
    digest = hashlib.sha256("\n".join(words).encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def _skill(family: str, skills: dict[str, float]) -> float:
    if family == "replay":
        return 1.0
    if family.startswith("guard"):
        return GUARD
    return skills.get(family, UNTRAINED)


def _skills(model: ModelRef) -> dict[str, float]:
    if model.adapter is None:
        return {}
    file = Path(model.adapter) / "adapter_config.json"
    try:
        skills: dict[str, float] = json.loads(file.read_text())["skills"]
        return skills
    except (OSError, ValueError, KeyError) as error:
        raise ModelUnavailable(f"simulated adapter {model.adapter_hash}: {error}") from None


def _learned(skills: dict[str, float], rows: Counter[str]) -> dict[str, float]:
    learned = dict(skills)
    for family, count in sorted(rows.items()):
        if family != "replay":
            missing = 1 - skills.get(family, UNTRAINED)
            learned[family] = min(MOST, 1 - missing * math.exp(-count / ROWS_TO_LEARN))
    return learned


def _write_adapter(out_dir: Path, model: ModelRef, skills: dict[str, float]) -> tuple[Path, str]:
    config = {"simulated": True, "base": model.base, "skills": skills}
    text = json.dumps(config, sort_keys=True).encode()
    aside = out_dir / f"simulated.tmp-{hashlib.sha256(text).hexdigest()[:16]}"
    aside.mkdir(parents=True, exist_ok=True)
    write_durable(aside / "adapter_config.json", text)
    name = write_manifest(aside, {"simulated": True})[:16]
    publish(aside, out_dir / name)
    return out_dir / name, name


def _text(ask: Ask, right: bool) -> str:
    """The worked answer, or one that is off."""
    worked = ask.worked or ""
    if right:
        return worked
    if worked[-1:].isdigit():
        return worked[:-1] + str((int(worked[-1]) + 1) % 10)
    return "I am not sure."


def _plan(ask: Ask) -> str:
    """The operator's reply, as JSON: tasks in proportion to failure, everything said is cited."""
    asked = json.loads(ask.messages[1]["content"])
    families, said = asked["families"], asked["directives"] + asked["steers"]
    wrong = {name: _wrong(one["difficulties"].values()) for name, one in families.items()}
    counts = _in_proportion(wrong, asked["most tasks"])
    left = {name: one["tasks left"] for name, one in families.items()}
    planned = {n: c if left[n] is None else min(c, left[n]) for n, c in counts.items()}
    worst = max(wrong, key=lambda name: wrong[name])
    label = families[worst]["label"]
    as_asked = f", as the owner asks: {said[-1]['text']}" if said else ""
    plan = {
        "reasoning": f"{wrong[worst]} answers to {label} were wrong, more than to any other kind.",
        "hypothesis": f"More verified practice on {label} lifts it most{as_asked}",
        "families": [
            {"family": name, "tasks": count, "mix": []} for name, count in planned.items() if count
        ],
        "settings": asked["settings of the recipe"],
        "follows": [{"id": one["id"], "how": "taken up in this plan"} for one in said],
    }
    return json.dumps(plan)


def _wrong(difficulties: Iterable[dict[str, int]]) -> int:
    return sum(one["of"] - one["right"] for one in difficulties)


def _in_proportion(wrong: dict[str, int], tasks: int) -> dict[str, int]:
    """Tasks by family; where nothing fails the first family gets them all."""
    total = sum(wrong.values())
    counts = {name: tasks * share // (total or 1) for name, share in wrong.items()}
    if not any(counts.values()):
        counts[next(iter(counts))] = tasks
    return counts


def _said(ask: Ask, text: str) -> Answer:
    """An answer with token counts of about four characters a token."""
    asked = sum(len(message["content"]) for message in ask.messages)
    tokens_out = min(len(text) // 4 + 1, ask.max_tokens)
    return Answer(key=ask.key, text=text, tokens_in=asked // 4 + 1, tokens_out=tokens_out)


def _loss(step: int) -> float:
    return 2.0 / math.sqrt(step + 1)
