"""What a phase may know of its run, and the tools that it works with."""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from data import events
from data.home import Home
from data.job_places import job_folder, log_name
from data.store import Store
from data.tables import Run
from engine.config import RunConfig, read_config
from engine.types import Domain, ModelEngine, ModelRef, Stop, Suite
from engine.verdicts import Verdicts


@dataclass(kw_only=True, slots=True, frozen=True)
class Library:
    """What the recipes bring: domains by name, the guard suite, general prompts for replay."""

    domains: dict[str, Domain]
    guard: Suite
    replay_prompts: tuple[str, ...]
    replay_systems: tuple[str, ...]  # taken in turn, prompt by prompt
    replay_tokens: int
    external: Mapping[str, Callable[[], Suite]] = field(
        default_factory=dict
    )  # measured, never gate


@dataclass(kw_only=True, slots=True, frozen=True)
class RunFacts:
    """A run as its phases see it."""

    id: str
    project_id: str
    mode: str
    seed: int | None
    secret: bytes  # decides buckets and seeds of every split but blind and held-out
    simulated: bool
    base_model: str
    domain: Domain
    config: RunConfig
    home: Home

    @property
    def dry(self) -> bool:
        return self.mode == "dry"

    @property
    def accounts(self) -> list[str]:
        """The ledger accounts that this run's spend is charged to."""
        return [f"run:{self.id}", f"project:{self.project_id}"]

    @property
    def log_name(self) -> str:
        """Under which name its events, its journal and its loss curve are kept."""
        return self.id

    @property
    def owner(self) -> dict[str, str | None]:
        """Whose the rows are that it writes."""
        return {"run": self.id, "job": None}

    @property
    def folder(self) -> Path:
        """Where it keeps its files."""
        return self.home.run_folder(self.id)


@dataclass(kw_only=True, slots=True, frozen=True)
class JobFacts:
    """Work that no loop started, as its phases see it; `spec` is what was asked for."""

    id: str
    project_id: str
    secret: bytes  # decides which tasks it is measured on
    simulated: bool
    base_model: str
    spec: dict[str, Any]
    home: Home
    dry: bool = False  # so that it reads like a run's

    @property
    def accounts(self) -> list[str]:
        """The ledger accounts that its time is charged to."""
        return [f"project:{self.project_id}"]

    @property
    def log_name(self) -> str:
        """Under which name its events, its journal and its loss curve are kept."""
        return log_name(self.id)

    @property
    def owner(self) -> dict[str, str | None]:
        """Whose the rows are that it writes."""
        return {"run": None, "job": self.id}

    @property
    def folder(self) -> Path:
        """Where it keeps its files."""
        return job_folder(self.home, self.id)


Facts = RunFacts | JobFacts


def read_facts(run: Run, library: Library, home: Home) -> RunFacts:
    """The facts of a run's row; a ValueError says which setting does not fit."""
    domain = library.domains[run.domain]
    return RunFacts(
        id=run.id,
        project_id=run.project_id,
        mode=run.mode,
        seed=run.seed,
        secret=bytes.fromhex(run.secret),
        simulated=run.simulated,
        base_model=run.base_model,
        domain=domain,
        config=read_config(run.config, domain),
        home=home,
    )


def derived_seed(secret: bytes, text: str) -> int:
    """A 31-bit seed for sampling or shuffling, from the run's secret and a stated purpose."""
    digest = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:4], "big") >> 1


@dataclass(kw_only=True)
class Tools:
    """What `execute` works with: models, folders, and ways to tell how far it is."""

    facts: Facts
    round: int
    step: str
    library: Library
    folder: Path
    store: Store
    find_student: Callable[[], ModelEngine]
    gateway: Any
    model: Callable[[str], ModelRef]  # base model by registry name
    verdicts: Verdicts
    stop: Stop

    @cached_property
    def student(self) -> ModelEngine:
        """Who answers for this run's student, found when a phase first asks."""
        return self.find_student()

    @property
    def run(self) -> str:
        """Under which name it is told how far the work is."""
        return self.facts.log_name

    @property
    def home(self) -> Home:
        return self.facts.home

    def progress(self, done: int, total: int, text: str) -> None:
        """Show how far the phase is; `text` names what is counted."""
        events.post_show(self.store, self.run, done=done, total=total, text=text)

    def event(self, kind: str, text: str, *, role: str = "engine", tool: str | None = None) -> None:
        """Add a line to the live view."""
        events.post(self.store, self.run, kind, text, role=role, tool=tool)
