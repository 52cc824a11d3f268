"""A twin of what answers for deployed versions: it says what it was given, word by word."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlmodel import Session

from app.access import PROJECT
from app.errors import ServiceError
from data.files import write_manifest
from data.home import Home
from data.tables import EndpointUse, Harness, Job, now
from tests.sample_run import HARNESS, MODEL

SYSTEM = "Answer with the number alone."


@dataclass(kw_only=True)
class Parrot:
    """Says `says[version]`, a word every `pace` seconds; keeps what it was asked, and who left."""

    says: dict[str, str] = field(default_factory=dict)
    refusal: ServiceError | None = None
    pace: float = 0.0
    asked: list[dict[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def ask(self, job: str, route: str, body: Mapping[str, Any], actor: str) -> dict[str, Any]:
        """Nobody asks the console for a whole answer."""
        raise NotImplementedError

    def stream(self, job: str, route: str, body: Mapping[str, Any], actor: str) -> "Words":
        """The answer in chunks, then its usage."""
        if self.refusal is not None:
            raise self.refusal
        self.asked.append({"job": job, "route": route, "actor": actor, **body})
        return Words(self, str(body["model"]))


class Words:
    """An answer in chunks that any thread may close."""

    def __init__(self, parrot: Parrot, model: str) -> None:
        self._parrot, self._model = parrot, model
        self._closed = False
        self._chunks = self._said(parrot.says.get(model, "42").split(" "))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        if self._closed:
            raise StopIteration
        return next(self._chunks)

    def close(self) -> None:
        """Somebody does not want the rest."""
        self._closed = True
        if self._model not in self._parrot.left:
            self._parrot.left.append(self._model)

    def _said(self, words: list[str]) -> Iterator[dict[str, Any]]:
        for number, word in enumerate(words):
            time.sleep(self._parrot.pace)
            delta = {"content": word if number == 0 else f" {word}"}
            yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        yield {"choices": [], "usage": {"completion_tokens": 7 * len(words)}}


def deploy_version(
    session: Session, job: str, version: str, state: str = "ready", calls: int = 0
) -> None:
    """An inference job as door and engine leave it."""
    base = "base" in version or "/" not in version
    session.add(
        Job(
            id=job,
            project_id=PROJECT,
            type="inference",
            status="running",
            spec={
                "name": version,
                "version": version,
                "base_model": MODEL,
                "adapter": None if base else "9f3e1c0ffee",
                "harness": {"system": SYSTEM, "max_tokens": 32} if "/" in version else None,
                "actor": "owner",
            },
            result={"state": state, "engine": "transformers-cpu-float32"},
        )
    )
    if calls:
        used = {"calls": calls, "tokens_in": 1200 * calls, "tokens_out": 34 * calls}
        who = {"project_id": PROJECT, "job": job, "actor": "owner", "kind": "chat"}
        session.add(EndpointUse(**who, **used, hour=now()[:13], status="answered"))


def lay_checkpoints(home: Home, session: Session) -> None:
    """Put the files of the sample runs' checkpoints where their rows say, and a harness's prompt."""
    for name in ("9f3e1c0ffee", "9f3e2c0ffee"):
        folder = home.checkpoints / name
        folder.mkdir(parents=True)
        (folder / "adapter_model.safetensors").write_bytes(b"w" * 9_800_000)
        (folder / "adapter_config.json").write_text("{}")
        write_manifest(folder, {})
    session.get_one(Harness, HARNESS).spec = {"system": SYSTEM}
