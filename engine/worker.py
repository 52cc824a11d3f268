"""The process that owns torch: `python -m engine.worker --fd N`, N being a socket to its parent.

Commands come and reports go as JSON lines over that socket alone. Standard output and error are a
log, in which no prompt or answer appears: sealed tasks pass through here. The process ends when its
parent does, by the kernel's signal and by the end of the socket.

Commands: load, generate, complete, read_labels, train, stop, quit. Reports: hello, beat, loaded,
answers, piece, refused, labels, step, trained, done, error.
"""

import argparse
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from data.disk import is_full
from engine.children import die_with_parent
from engine.disk import disk_full
from engine.errors import DiskFull, EngineError, Interrupted, ModelUnavailable, RequestRefused
from engine.types import Answer, Ask, LabelAsk, LoraSettings, ModelRef, TrainJob, TrainProgress

if TYPE_CHECKING:
    from engine.models.weights import Loaded

BEAT_SECONDS = 1.0
MEMORY_WORDS = ("out of memory", "allocate memory", "not enough memory")


def main() -> None:
    """Serve one parent until it quits, ends, or closes the socket."""
    die_with_parent()
    share_cores()
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    wire = socket.socket(fileno=parser.parse_args().fd)
    worker = Worker(wire)
    threading.Thread(target=worker.read, daemon=True).start()
    threading.Thread(target=worker.beat, daemon=True).start()
    worker.serve()


def share_cores() -> None:
    """Let torch's threads sleep soon when they wait for each other; must come before torch.

    By default they spin. On cores shared with any other busy process that makes two threads several
    times slower than one; sleeping early costs a few percent on an idle machine.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


class Worker:
    """One model in memory and one command at a time; stop and quit are heard at any moment."""

    def __init__(self, wire: socket.socket) -> None:
        self.wire = wire
        self.sending = threading.Lock()
        self.commands: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.loaded: Loaded | None = None
        self.progress = 0  # tokens read, written or trained on since the start
        self.stopped_id = -1  # the command that was asked to stop
        self.told: list[str] = []

    def serve(self) -> None:
        """Run commands in order; an error is reported and the next command is served."""
        handlers = {"load": self.load, "generate": self.generate, "train": self.train}
        handlers |= {"complete": self.complete, "read_labels": self.read_labels}
        self.say("hello", pid=os.getpid())
        while True:
            command = self.commands.get()
            try:
                handlers[command["do"]](command)
                self.say("done", id=command["id"])
            except Exception as error:  # noqa: BLE001 - the parent must hear of any
                kind, text = describe(error)
                self.say("error", id=command["id"], kind=kind, text=text)

    def load(self, command: dict[str, Any]) -> None:
        """Load a base; without a precision the faster one is found by a short trial."""
        import torch
        from transformers.utils import logging

        from engine.models.probe import load_fastest
        from engine.models.weights import load_base

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        self.loaded = None
        if command["threads"]:
            torch.set_num_threads(command["threads"])
        device = command["device"] or ("cuda" if torch.cuda.is_available() else "cpu")
        ref = ModelRef(**command["model"])
        tried: dict[str, float] = {}
        if command["precision"]:
            self.loaded = load_base(ref, command["precision"], device)
        else:
            self.loaded, tried = load_fastest(ref, device)
        precision = self.loaded.precision
        note(f"loaded {ref.base} {ref.revision} on {device} as {precision}, seconds a step {tried}")
        self.say("loaded", device=device, precision=precision, tried=tried)

    def generate(self, command: dict[str, Any]) -> None:
        """Answer asks in batches, each reported as it is finished."""
        from engine.models.generate import generate
        from engine.models.weights import wear

        loaded = self.need_model()
        wear(loaded, ModelRef(**command["model"]))
        asks = [Ask(**ask) for ask in command["asks"]]
        generate(
            loaded, asks, self.hand_over, self.stop_check(command), self.count, command["share"]
        )
        note(f"answered {len(asks)} asks with adapter {loaded.adapter_hash}")

    def complete(self, command: dict[str, Any]) -> None:
        """Write one answer, reported in pieces."""
        from engine.models.complete import Wanted, complete
        from engine.models.weights import wear

        loaded = self.need_model()
        wear(loaded, ModelRef(**command["model"]))
        wanted = Wanted.from_plain(command["wanted"])
        try:
            complete(loaded, wanted, self.tell_piece, self.stop_check(command), self.count)
        except RequestRefused as refused:
            self.say("refused", code=refused.code, text=str(refused))

    def read_labels(self, command: dict[str, Any]) -> None:
        """Read label probabilities in batches, each reported as it is finished."""
        from engine.models.labels import read_labels
        from engine.models.weights import wear

        loaded = self.need_model()
        wear(loaded, ModelRef(**command["model"]))
        asks = [LabelAsk(**{**ask, "labels": tuple(ask["labels"])}) for ask in command["asks"]]
        stop, share = self.stop_check(command), command["share"]
        try:
            read_labels(loaded, asks, self.tell_labels, stop, self.count, share)
            note(f"read labels of {len(asks)} asks with adapter {loaded.adapter_hash}")
        except RequestRefused as refused:
            self.say("refused", code=refused.code, text=str(refused))

    def tell_labels(self, read: dict[str, dict[str, float]]) -> None:
        self.say("labels", read=read)

    def tell_piece(self, piece: dict[str, Any]) -> None:
        self.say("piece", piece=piece)

    def hand_over(self, answers: list[Answer]) -> None:
        self.say("answers", answers=[asdict(answer) for answer in answers])

    def train(self, command: dict[str, Any]) -> None:
        """Train an adapter, with a report after every step."""
        from engine.models.lora import train
        from engine.models.peak import begin_measuring, measured_peak

        job = job_from(command["job"])
        device = self.need_model().device
        begin_measuring(device)
        try:
            result = train(
                self.need_model(job.settings.quantize),
                job,
                self.report_step,
                self.stop_check(command),
                self.count,
                command["part_rows"],
                self.tell,
            )
        except Exception as error:
            if is_full(error):
                raise disk_full(Path(job.state_dir)) from error
            raise
        note(f"trained {result.steps} steps to adapter {result.adapter_hash}")
        peak, kind = measured_peak(device), device.partition(":")[0]
        self.say("trained", result=asdict(replace(result, peak_bytes=peak, peak_on=kind)))

    def tell(self, text: str) -> None:
        """Log a line that the next step's report carries as well."""
        note(text)
        self.told.append(text)

    def report_step(self, progress: TrainProgress) -> None:
        told, self.told = "; ".join(self.told) or None, []
        self.say("step", progress=asdict(replace(progress, note=told)))

    def need_model(self, quantize: str | None = None) -> "Loaded":
        """The base in memory, loaded again where the work needs it in other bits."""
        from engine.models.weights import load_again

        if self.loaded is None:
            raise ModelUnavailable("no base model is loaded in the worker")
        if self.loaded.quantize != quantize or self.loaded.model is None:
            self.loaded = load_again(self.loaded, quantize)
            note(f"loaded {self.loaded.name} again, bits: {quantize or 'as they are'}")
        return self.loaded

    def stop_check(self, command: dict[str, Any]) -> Callable[[], bool]:
        return lambda: self.stopped_id == command["id"]

    def count(self, tokens: int) -> None:
        self.progress += tokens

    def read(self) -> None:
        """Take commands from the socket; its end is the parent's end, and so is this process's."""
        try:
            for command in lines(self.wire):
                if command["do"] == "quit":
                    break
                if command["do"] == "stop":
                    self.stopped_id = command["id"]
                else:
                    self.commands.put(command)
        finally:
            os._exit(0)

    def beat(self) -> None:
        """Say once a second how far things are, so that slow and hung can be told apart."""
        while True:
            self.say("beat", progress=self.progress)
            time.sleep(BEAT_SECONDS)

    def say(self, word: str, **fields: Any) -> None:
        """Send one report; without a parent to hear it there is nothing left to do."""
        data = json.dumps({"say": word, **fields}).encode() + b"\n"
        try:
            with self.sending:
                self.wire.sendall(data)
        except OSError:
            os._exit(1)


def lines(wire: socket.socket) -> Iterator[dict[str, Any]]:
    """JSON lines from a socket until its end."""
    with wire.makefile("rb") as file:
        for line in file:
            yield json.loads(line)


def job_from(fields: dict[str, Any]) -> TrainJob:
    """A training job from its plain form."""
    parts = {"model": ModelRef(**fields["model"]), "settings": LoraSettings(**fields["settings"])}
    return TrainJob(**{**fields, **parts})


def describe(error: Exception) -> tuple[str, str]:
    """Kind and text of an error for the parent, which must not hold a prompt or an answer."""
    if isinstance(error, Interrupted):
        return "stopped", str(error)
    if isinstance(error, ModelUnavailable):
        return "model", str(error)
    if isinstance(error, DiskFull) or is_full(error):
        return "disk", str(error)
    if isinstance(error, EngineError):
        return "failed", str(error)
    if is_memory(error):
        return "memory", first_line(error)
    if isinstance(error, OSError):
        return "failed", str(error)
    frames = traceback.extract_tb(error.__traceback__)
    note("".join(traceback.format_list(frames)) + type(error).__name__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"
    text = f": {first_line(error)}" if isinstance(error, RuntimeError) else ""
    return "broken", f"{type(error).__name__} at {place}{text}"


def is_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out, on a GPU or in main memory."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in MEMORY_WORDS)


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def note(text: str) -> None:
    """One line in the log, with the time."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(f"{stamp} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
