"""The plain types that the engine and the recipes share; the only module that recipes may import."""

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

Message = dict[str, str]  # {"role": "system" | "user" | "assistant", "content": "..."}


# Tasks and verdicts


@dataclass(kw_only=True, slots=True, frozen=True)
class Task:
    """One problem. `checker` is for the Verifier alone: it enters no prompt, event, log or plan."""

    family: str
    version: str
    prompt: str
    checker: dict[str, Any]
    worked: str  # a right answer in the form that the prompt asks for
    canonical_key: str  # what the task means, whatever its wording
    template_id: str  # its wording with numbers and names masked
    stratum: str  # the kind of difficulty inside the family, in words for people
    shows: tuple[str, ...] = ()  # canonical keys of other tasks whose answers the prompt shows

    @property
    def id(self) -> str:
        """16 hex digits that name this task by content, the same in every process."""
        text = f"{self.family}\n{self.version}\n{self.canonical_key}\n{self.prompt}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(kw_only=True, slots=True, frozen=True)
class Verdict:
    """What a Verifier says of one answer: a score in [0, 1], or None (no verdict, never a zero)."""

    score: float | None
    reason: str
    parsed: str | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class Verifier:
    """Scores an answer to a task without any model. `verify` is pure and never raises on any text."""

    name: str
    verify: Callable[[Task, str], Verdict]

    @property
    def sha256(self) -> str:
        """SHA-256 of the file that defines `verify`; it is part of every protocol hash."""
        source = inspect.getsourcefile(self.verify)
        if source is None:
            raise ValueError(f"Verifier {self.name} has no source file")
        return hashlib.sha256(Path(source).read_bytes()).hexdigest()


@dataclass(kw_only=True, slots=True, frozen=True)
class Exam:
    """An answer's code with what it is asked: the sandbox gets all but `expected`.

    Each of `inputs` is one call's arguments, JSON; `expected` has what each call must return. With
    a `check`, code that runs beside the answer's, nothing is called and `expected` is (True,).
    """

    code: str
    entry: str = ""
    inputs: tuple[tuple[Any, ...], ...] = ()
    expected: tuple[Any, ...] = ()
    check: str | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class CodeVerifier:
    """Scores an answer by running code: `pose` says what to run, the engine runs and compares.

    `pose(task, answer, rng)` is pure, runs nothing itself and never raises on any text. It gives an
    Exam, or a Verdict where there is nothing to run. `rng` is seeded from the run's secret and the
    answer, so that inputs drawn from it exist only once the answer does.
    """

    name: str
    pose: Callable[[Task, str, Random], Exam | Verdict]
    beside: tuple[Path, ...] = ()  # further files that decide a score, such as the oracle's

    @property
    def sha256(self) -> str:
        """SHA-256 of the file that defines `pose`, those beside it, and the engine's own two that
        run and compare; part of every protocol."""
        engine = Path(__file__).with_name("sandbox")
        judged_by = [engine / "inside.py", engine / "judge.py"]
        files = [Path(inspect.getfile(self.pose)), *sorted(self.beside), *judged_by]
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


AnyVerifier = Verifier | CodeVerifier


@dataclass(kw_only=True, slots=True, frozen=True)
class Family:
    """A kind of task. `build(rng, params)` returns the fields of a Task but family and version.

    `count_keys(params)` is how many canonical keys there are, or None when far beyond 10 million.
    """

    id: str
    role: str  # train | held_out | guard
    label: str  # a few words for people: "sums with carries"
    revision: int
    build: Callable[[Random, Mapping[str, Any]], dict[str, Any]]
    count_keys: Callable[[Mapping[str, Any]], int | None]
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Revision and parameters in one word: scores of different versions are never compared."""
        words = [f"{name}={value}" for name, value in sorted(self.params.items())]
        return ";".join([str(self.revision), *words]).replace(" ", "")

    def with_params(self, changes: Mapping[str, Any]) -> "Family":
        """The same family with some parameters changed; an unknown parameter is a ValueError."""
        unknown = sorted(set(changes) - set(self.params))
        if unknown:
            raise ValueError(
                f"{self.id} has no parameter {unknown[0]}; it has {sorted(self.params)}"
            )
        return replace(self, params={**self.params, **changes})

    def make(self, item_seed: int) -> Task:
        """The task of one seed: same seed, parameters and revision give the same task everywhere."""
        fields = self.build(Random(item_seed), self.params)
        return Task(family=self.id, version=self.version, **fields)

    @property
    def key_count(self) -> int | None:
        """How many different tasks there are, or None when practically without end."""
        return self.count_keys(self.params)


@dataclass(kw_only=True, slots=True, frozen=True)
class Domain:
    """A set of families with one way to ask and one Verifier."""

    name: str
    label: str
    families: tuple[Family, ...]
    verifier: AnyVerifier
    system: str  # system prompt of the default harness
    max_tokens: int  # answer budget of the default harness
    # Whether a teacher's wording may stand beside a task's own, as far as its text tells; without
    # it no task of the domain is reworded.
    may_stand: Callable[[Task, str], bool] | None = None

    @property
    def needs_sandbox(self) -> bool:
        """Whether answers are code that a sandbox runs."""
        return isinstance(self.verifier, CodeVerifier)

    def family(self, family_id: str) -> Family:
        """The family of that id; an unknown one is a ValueError that lists what there is."""
        for family in self.families:
            if family.id == family_id:
                return family
        names = ", ".join(f.id for f in self.families)
        raise ValueError(f"domain {self.name} has no family {family_id}; it has {names}")


@dataclass(kw_only=True, slots=True, frozen=True)
class Suite:
    """A fixed list of sealed tasks with their own way to ask and Verifier, such as the guard."""

    name: str
    tasks: tuple[Task, ...]
    verifier: AnyVerifier
    system: str
    max_tokens: int

    @property
    def needs_sandbox(self) -> bool:
        """Whether answers are code that a sandbox runs."""
        return isinstance(self.verifier, CodeVerifier)


# Models: what is asked, what comes back, what is trained


@dataclass(kw_only=True, slots=True, frozen=True)
class Harness:
    """How a model is asked: system prompt, sampling and answer budget. Hashed into every version."""

    system: str
    max_tokens: int
    temperature: float = 0.0
    attempts: int = 1

    def messages(self, prompt: str) -> list[Message]:
        """The chat messages that put one prompt to a model."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": prompt}]


@dataclass(kw_only=True, slots=True, frozen=True)
class Ask:
    """One request for an answer. `worked` is filled in for simulated models alone."""

    key: str
    messages: list[Message]
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    family: str = ""
    worked: str | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class Answer:
    """What came back for one ask. `text` is None when nothing did; `error` then says why."""

    key: str
    text: str | None
    tokens_in: int = 0
    tokens_out: int = 0
    finish: str = "stop"  # stop | length | error
    error: str | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class ModelRef:
    """Weights by content: a base folder with its revision, with or without an adapter folder."""

    base: str  # registry name
    path: str
    revision: str  # hash of the base weights
    adapter: str | None = None  # folder of the adapter
    adapter_hash: str | None = None

    @property
    def identity(self) -> str:
        """Base revision and adapter hash in one string."""
        return f"{self.revision}+{self.adapter_hash or 'none'}"


@dataclass(kw_only=True, slots=True, frozen=True)
class LoraSettings:
    """How an adapter is trained. Lengths are tokens, the learning rate is AdamW's.

    `target_modules` names the linear layers that get an adapter, all of the blocks when empty;
    `target_parameters` further weights that are no layers, such as those of fused experts.
    `quantize` "4bit" trains over a base of 4 bits (CUDA alone); answers come from the whole base.
    `rows_at_once` is how many rows of a batch are computed together, all when None, with the same
    gradients; `gradient_checkpointing` computes activations again instead of keeping them.
    """

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0
    learning_rate: float = 1e-3
    epochs: float = 1.0
    batch_size: int = 32
    warmup_steps: int = 3
    max_length: int = 1024
    checkpoint_seconds: float = 30.0
    target_modules: Sequence[str] = ()
    target_parameters: Sequence[str] = ()
    quantize: str | None = None  # 4bit
    gradient_checkpointing: bool = False
    rows_at_once: int | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class TrainJob:
    """One training: rows in, adapter out.

    `rows_file` is JSONL of {"messages": [...], "completion": str, "ends": bool}; loss falls on the
    completion alone, and on the end token when `ends` (false when the answer was cut off).
    `state_dir` holds checkpoints to resume from; `out_dir` is made whole or not at all.
    """

    model: ModelRef  # an adapter here is continued
    rows_file: str
    out_dir: str
    state_dir: str
    settings: LoraSettings
    seed: int


@dataclass(kw_only=True, slots=True, frozen=True)
class TrainProgress:
    """One report of a running training."""

    step: int
    steps: int
    loss: float
    seconds: float
    checkpoint_step: int | None = None
    note: str | None = None  # what happened on the way that people should know


@dataclass(kw_only=True, slots=True, frozen=True)
class TrainResult:
    """What a training did: `target_tokens` carry loss, `resumed_from` is the step it went on from.

    `peak_bytes` is the most memory that its last sitting took on `peak_on`, "cpu" or "cuda".
    """

    adapter_dir: str
    adapter_hash: str
    steps: int
    rows_used: int
    tokens: int
    target_tokens: int
    loss_first: float
    loss_last: float
    seconds: float
    batch_size: int
    resumed_from: int = 0
    peak_bytes: int | None = None
    peak_on: str | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class LabelAsk:
    """One question that a model answers with one of some labels, read without decoding."""

    key: str
    messages: list[Message]
    labels: tuple[str, ...]


class Stop(Protocol):
    """Asked between batches and steps; true means end soon, keeping what is done."""

    def __call__(self) -> bool: ...


class ModelEngine(Protocol):
    """The one seam to whatever answers and trains: the worker, a simulated twin, vLLM."""

    simulated: bool

    @property
    def name(self) -> str:
        """Engine, device and precision, "transformers-cpu-float32"; part of every protocol hash."""
        ...

    def generate(
        self,
        model: ModelRef,
        asks: Sequence[Ask],
        on_batch: Callable[[list[Answer]], None],
        stop: Stop,
    ) -> None:
        """Answer every ask, handing batches over as they come; Interrupted when `stop` says so."""
        ...

    def train(
        self, job: TrainJob, on_progress: Callable[[TrainProgress], None], stop: Stop
    ) -> TrainResult:
        """Train an adapter; resumes from `job.state_dir`; Interrupted when `stop` says so."""
        ...

    def close(self) -> None:
        """End whatever the engine keeps running."""
        ...


# Deployed versions: somebody waits for the answer


class Host(Protocol):
    """One process that holds a base with adapters and answers OpenAI-compatible requests.

    Bodies, answers and chunks are those of the OpenAI API as plain JSON; `model` in a body is
    ignored in favour of the ModelRef. `route` is "chat/completions" or "completions". Errors are of
    engine.errors: RequestRefused (the caller's fault, with the reason), HostGone, ModelUnavailable.
    """

    @property
    def name(self) -> str:
        """Engine, device and precision, such as "vllm-cpu-bfloat16"."""
        ...

    def start(self, base: ModelRef, stop: Stop) -> None:
        """Have the process up with this base; Interrupted when `stop` says so."""
        ...

    def load(self, model: ModelRef) -> None:
        """Have a model's adapter ready under a name made of its content, drained before, probed
        after; a base without an adapter is always ready."""
        ...

    def unload(self, model: ModelRef) -> None:
        """Drop an adapter once nobody is being answered by it."""
        ...

    def ask(
        self, model: ModelRef, route: str, body: Mapping[str, Any], stop: Stop = lambda: False
    ) -> dict[str, Any]:
        """The whole answer; HostGone when a host that heeds `stop` hears that nobody waits for it."""
        ...

    def stream(
        self, model: ModelRef, route: str, body: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """The answer in chunks as they come; closing the iterator ends the generation."""
        ...

    def is_up(self) -> bool:
        """Whether its process runs."""
        ...

    def close(self) -> None:
        """End the process, and give its memory back."""
        ...


class Completions(Protocol):
    """What the doors are lent: an answer of a deployed version, for a caller who waits.

    `job` is an inference job's id. A sleeping endpoint is woken by the call, which waits for it.
    Errors are of engine.errors: EndpointNotReady (paused, ended or failed), RequestRefused,
    HostGone, ModelUnavailable.
    """

    def ask(
        self, job: str, route: str, body: Mapping[str, Any], actor: str, left: Stop
    ) -> dict[str, Any]:
        """The whole answer; who asked and its usage are recorded. `left` says whether the caller
        has gone, for whom a host that can do so writes no more."""
        ...

    def stream(
        self, job: str, route: str, body: Mapping[str, Any], actor: str
    ) -> Iterator[dict[str, Any]]:
        """The answer in chunks; the first is there when this returns."""
        ...


def as_dict(value: Any) -> dict[str, Any]:
    """A dataclass of this module as plain JSON-ready types."""
    return asdict(value)
