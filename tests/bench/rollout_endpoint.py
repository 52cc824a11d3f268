"""Chats through our server against the same chats with the vLLM process behind it.

One server deploys the embedded model on vLLM. Both sides ask that one process, one chat after
another, each from a client of its own (`rollout_chats`): ours at `/v1/chat/completions` with a key,
theirs at vLLM's socket.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import col, select

from app.admin import call_admin
from app.errors import ServiceError
from data.home import Home
from data.store import Reader
from data.tables import Child, Job
from tests.bench.harness import (
    ONE_THREAD,
    ROOT,
    BenchFailed,
    Goal,
    Ratio,
    Side,
    compare,
    module,
    same_texts,
    say,
)
from tests.bench.startup import ended, first_page, wait_for_port
from tests.listening import free_port

GOAL = Goal(at_most=1.10)
CHATS, QUICK_CHATS = 16, 4
TOKENS, QUICK_TOKENS = 48, 16
PATIENCE_SECONDS = 1200.0  # vLLM takes a minute or more to start


@dataclass(kw_only=True, slots=True, frozen=True)
class Deployed:
    """Where a deployed model answers: our server with its key, and vLLM's socket."""

    url: str
    key: str
    socket: str
    vllm_name: str


def measure(model: Path, pairs: int, quick: bool) -> Ratio:
    """Seconds a chat through our server over seconds a chat with vLLM itself."""
    chats, tokens = (QUICK_CHATS, QUICK_TOKENS) if quick else (CHATS, TOKENS)
    sizes = (str(chats), str(tokens))
    with deployed(model.name) as place:
        ours = module("rollout_chats", place.url, place.key, model.name, *sizes)
        theirs = module("rollout_chats", f"unix:{place.socket}", "", place.vllm_name, *sizes)
        return compare(
            Side(name="Pawl's endpoint", command=ours),
            Side(name="vLLM, called directly", command=theirs),
            value="seconds",
            unit="s/chat",
            goal=GOAL,
            pairs=pairs,
            differ=same_texts,
            again=not quick,
        )


@contextmanager
def deployed(model: str) -> Iterator[Deployed]:
    """A server on a home of its own whose vLLM has answered once as the base model."""
    port = free_port()
    threads = [f"{name}={value}" for name, value in ONE_THREAD.items()]
    with tempfile.TemporaryDirectory(prefix="pawl-bench-") as folder:
        home = Home(path=Path(folder).resolve())
        serve = ["serve", "--no-browser", "--home", str(home.path), "--port", str(port)]
        with ended(["env", *threads, sys.executable, str(ROOT / "run.py"), *serve]) as process:
            wait_for_port(process, port)
            first_page(port)
            call_admin(home.admin_socket, "setting.set", name="engine", value="vllm")
            say("A server starts vLLM: once, about a minute")
            try:
                call_admin(home.admin_socket, "deploy", version=model)
            except ServiceError as refused:
                raise BenchFailed(f"{model} cannot be deployed: {refused}") from None
            yield _place(home, f"http://127.0.0.1:{port}")


def _place(home: Home, url: str) -> Deployed:
    """Where it answers, as soon as vLLM has a process that takes connections."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        _check_deployed(home)
        for arguments in _children(home):
            if "--uds" in arguments:
                path = arguments[arguments.index("--uds") + 1]
                name = arguments[arguments.index("--served-model-name") + 1]
                key = home.owner_key.read_text().strip()
                return Deployed(url=url, key=key, socket=path, vllm_name=name)
        time.sleep(0.5)
    raise BenchFailed(f"no vLLM after {PATIENCE_SECONDS:.0f} s; see {home.logs}")


def _check_deployed(home: Home) -> None:
    reader = Reader(home.database)
    try:
        with reader.read() as session:
            job = session.exec(select(Job).where(Job.type == "inference")).one()
    finally:
        reader.close()
    if job.status in ("failed", "cancelled"):
        raise BenchFailed(f"the deployment {job.status}: {job.reason}")


def _children(home: Home) -> list[list[str]]:
    """The command lines of what the server has started and has not ended."""
    reader = Reader(home.database)
    try:
        with reader.read() as session:
            running = session.exec(select(Child).where(col(Child.ended_at).is_(None))).all()
    finally:
        reader.close()
    lines = [Path(f"/proc/{child.pid}/cmdline") for child in running]
    return [os.fsdecode(line.read_bytes()).split("\0") for line in lines if line.exists()]
