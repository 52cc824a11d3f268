"""The engine that answers by vLLM and trains in the worker, taking turns on a card."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx

from engine.errors import HostGone, Interrupted
from engine.serving.vllm_host import VllmHost, name_of
from engine.serving.vllm_process import STOP_SECONDS, WHOLE_SECONDS
from engine.serving.vllm_wire import said
from engine.types import (
    Answer,
    Ask,
    ModelEngine,
    ModelRef,
    Stop,
    TrainJob,
    TrainProgress,
    TrainResult,
)

AT_ONCE, AT_ONCE_ON_A_CARD = 32, 256  # asks that vLLM is given together
AT_ONCE_TIMES = 4  # as many asks are answered between two probes, and then handed over


class Trainer(Protocol):
    """The worker as it is needed here."""

    def ready(self, base: ModelRef, stop: Stop) -> ModelEngine: ...

    def rest(self) -> None: ...


class VllmEngine:
    """Answers whole evaluations by one vLLM process; nothing is loaded into it meanwhile.

    A fingerprint before and after each part of it shows that the model asked for is the one that
    answered: ProbeFailed otherwise, and the part's answers are not handed over. A process that ends
    is replaced once in a call. One call runs at a time. On a card the worker and vLLM do not hold
    memory together.
    """

    simulated = False

    def __init__(self, host: VllmHost, worker: Trainer, on_card: bool) -> None:
        self._host, self._worker, self._on_card = host, worker, on_card
        self._turn = threading.Lock()
        self._closed = False

    @property
    def name(self) -> str:
        """Such as "vllm-cuda-bfloat16"."""
        return self._host.name

    def generate(
        self,
        model: ModelRef,
        asks: Sequence[Ask],
        on_batch: Callable[[list[Answer]], None],
        stop: Stop,
    ) -> None:
        """Answer every ask, handing batches over as they come; Interrupted when `stop` says so."""
        left = {ask.key: ask for ask in asks}
        if len(left) != len(asks):
            raise ValueError("two asks have the same key")

        def take(batch: list[Answer]) -> None:
            for answer in batch:
                left.pop(answer.key, None)
            on_batch(batch)

        def ended() -> bool:
            return self._closed or stop()

        with self._own_turn(ended):
            try:
                self._evaluate(model, list(left.values()), take, ended)
            except HostGone:
                if ended():
                    raise Interrupted("stopped while vLLM was answering") from None
                self._host.close()
                self._evaluate(model, list(left.values()), take, ended)

    def _evaluate(
        self, model: ModelRef, asks: list[Ask], take: Callable[[list[Answer]], None], stop: Stop
    ) -> None:
        if self._on_card and not self._host.is_up():
            self._worker.rest()
        self._host.start(model, stop)
        self._host.confirm(model)
        at_once = AT_ONCE_ON_A_CARD if self._on_card else AT_ONCE
        for first in range(0, len(asks), AT_ONCE_TIMES * at_once):
            part = asks[first : first + AT_ONCE_TIMES * at_once]
            with self._host.answering(model) as process:
                process.need()
                socket, name = process.socket, name_of(model)
                answers = asyncio.run(answer_all(socket, name, part, stop, at_once))
            self._host.confirm(model)
            take(answers)

    def train(
        self, job: TrainJob, on_progress: Callable[[TrainProgress], None], stop: Stop
    ) -> TrainResult:
        """Train in the worker; on a card vLLM ends first, so that there is memory for it."""
        with self._own_turn(lambda: self._closed or stop()):
            if self._on_card:
                self._host.close()
            return self._worker.ready(job.model, stop).train(job, on_progress, stop)

    @contextmanager
    def _own_turn(self, stop: Stop) -> Iterator[None]:
        while not self._turn.acquire(timeout=STOP_SECONDS):
            if stop():
                raise Interrupted("stopped while waiting for vLLM")
        try:
            yield
        finally:
            self._turn.release()

    def rest(self) -> None:
        """End vLLM unless a call is under way; the next call starts it again."""
        if self._turn.acquire(blocking=False):
            try:
                self._host.close()
            finally:
                self._turn.release()

    def close(self, seconds: float = 10.0) -> None:
        """End vLLM; a call under way has `seconds` to end as Interrupted."""
        self._closed = True
        got_turn = self._turn.acquire(timeout=seconds)
        try:
            self._host.close()
        finally:
            if got_turn:
                self._turn.release()


async def answer_all(
    socket: Path, name: str, asks: Sequence[Ask], stop: Stop, at_once: int
) -> list[Answer]:
    """Ask the server on that socket everything, `at_once` together; answers in the order of asks.

    On a stop the requests under way end in vLLM as well, since their connections close. HostGone
    when the process ended, or is silent for too long.
    """
    transport = httpx.AsyncHTTPTransport(uds=str(socket), limits=httpx.Limits())
    timeout = httpx.Timeout(None, connect=30.0, read=WHOLE_SECONDS)
    places = asyncio.Semaphore(at_once)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://vllm", timeout=timeout
    ) as client:
        tasks = [asyncio.create_task(_answer(client, places, name, ask)) for ask in asks]
        try:
            waiting = set(tasks)
            while waiting:
                done, waiting = await asyncio.wait(
                    waiting, timeout=STOP_SECONDS, return_when=asyncio.FIRST_EXCEPTION
                )
                for task in done:
                    task.result()  # raises what went wrong in it
                if stop():
                    raise Interrupted("stopped while vLLM was answering")
            return [task.result() for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _answer(
    client: httpx.AsyncClient, places: asyncio.Semaphore, name: str, ask: Ask
) -> Answer:
    """One answer; a request that vLLM refuses is an answer without text."""
    async with places:
        try:
            response = await client.post("/v1/chat/completions", json=_body(name, ask))
        except httpx.HTTPError as error:
            raise HostGone(f"vLLM broke off while answering ({type(error).__name__})") from None
    if response.status_code >= 500:
        raise HostGone(f"vLLM failed: {said(response)}")
    if response.status_code != 200:
        return Answer(key=ask.key, text=None, finish="error", error=said(response))
    whole: dict[str, Any] = response.json()
    choice, usage = whole["choices"][0], whole["usage"]
    return Answer(
        key=ask.key,
        text=choice["message"]["content"] or "",
        tokens_in=usage["prompt_tokens"],
        tokens_out=usage["completion_tokens"],
        finish="length" if choice["finish_reason"] == "length" else "stop",
    )


def _body(name: str, ask: Ask) -> dict[str, Any]:
    # The chat template of the base's folder, which the worker renders with too: the same ids.
    return {
        "model": name,
        "messages": ask.messages,
        "max_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "seed": ask.seed,
    }
