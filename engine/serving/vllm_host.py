"""Answers of deployed versions by a vLLM server that Pawl starts, loads adapters into, and ends."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from engine.children import ChildInfo
from engine.errors import EndpointNotReady, HostGone, ModelUnavailable, ProbeFailed
from engine.models.registry import check_weights_folder
from engine.serving.fingerprint import Fingerprint, check, probe_body, read_fingerprint
from engine.serving.in_flight import InFlight
from engine.serving.vllm_process import WHOLE_SECONDS, Launch, VllmProcess
from engine.serving.vllm_wire import checked_fields, chunks, refusal, said
from engine.types import ModelRef, Stop

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM can be started for
FIRST_RANK = 16
BUSY_SECONDS = 300.0  # for answers under way to end, before an adapter is changed


def vllm_host(
    python: Path,
    *,
    log_dir: Path,
    device: str = "cpu",
    cards: str = "",
    tensor_parallel: int = 1,
    spare: int = 0,
    record_child: Callable[[ChildInfo], None] = lambda info: None,
    forget_child: Callable[[ChildInfo], None] = lambda info: None,
) -> "VllmHost":
    """A Host on the vLLM of that interpreter; its log is `vllm.log` in `log_dir`.

    It computes in bfloat16 on a card and in float32 on a CPU. `cards` is CUDA_VISIBLE_DEVICES for
    it, of which `tensor_parallel` share one model; `spare` bytes of each are left to others.
    """
    kind = device.split(":")[0]
    launch = Launch(
        python=python,
        log_file=log_dir / "vllm.log",
        device=kind,
        precision="float32" if kind == "cpu" else "bfloat16",
        rank=FIRST_RANK,
        cards=cards,
        tensor_parallel=tensor_parallel,
        spare=spare,
    )
    return VllmHost(launch, record_child, forget_child)


class VllmHost:
    """One vLLM process with one base, and adapters by the hash of their content.

    A name is never given to other content, and nothing is answered while an adapter is put in. After
    that, and whenever `confirm` is called, a fingerprint shows which adapter answers. An adapter of
    a higher rank than the process was started for has it started again.
    """

    def __init__(
        self,
        launch: Launch,
        record_child: Callable[[ChildInfo], None],
        forget_child: Callable[[ChildInfo], None],
    ) -> None:
        self._launch = launch
        self._record_child, self._forget_child = record_child, forget_child
        self._in_flight = InFlight()
        self._changing = threading.RLock()  # of the process itself
        self._process: VllmProcess | None = None
        self._base: ModelRef | None = None
        self._restarting = False
        self._loaded: set[str] = set()
        self._known: dict[str, Fingerprint] = {}  # also of adapters that are not loaded any more

    @property
    def name(self) -> str:
        """Such as "vllm-cpu-float32"."""
        return f"vllm-{self._launch.device}-{self._launch.precision}"

    @property
    def pid(self) -> int | None:
        """Process id of the server, or None while there is none."""
        return self._process.info.pid if self._process else None

    def start(self, base: ModelRef, stop: Stop) -> None:
        """Have the process up with this base; Interrupted when `stop` says so."""
        bare = replace(base, adapter=None, adapter_hash=None)
        with self._changing:
            if self.is_up() and self._base == bare:
                return
            self.close()
            if not self._launch.python.is_file():
                raise ModelUnavailable(
                    f"there is no vLLM at {self._launch.python}: python3 run.py install vllm"
                )
            self._process = process = VllmProcess(self._launch, bare)
            self._record_child(process.info)
            try:
                process.wait_until_ready(stop)
                self._known = {bare.revision: self._read(bare.revision)}
                self._base = bare
            except BaseException:
                self.close()
                raise

    def load(self, model: ModelRef) -> None:
        """Have an adapter ready: nothing is answered meanwhile, and a probe shows it afterwards.

        ModelUnavailable when its folder does not hold what its hash says or vLLM refuses it;
        ProbeFailed when something else answers under its name.
        """
        if not model.adapter_hash or not model.adapter or model.adapter_hash in self._loaded:
            return
        rank = check_adapter(model)
        with self._changing:
            self._check_base(model)
            if rank > self._launch.rank:
                self._start_for(rank, model)
            with self._alone():
                self._put_in(model.adapter_hash, model.adapter)

    def _start_for(self, rank: int, model: ModelRef) -> None:
        """Start the process again for adapters of that rank; the others come back when asked."""
        fitting = [one for one in RANKS if one >= rank]
        if not fitting:
            raise ModelUnavailable(f"adapter {model.adapter} has rank {rank}; vLLM has up to 512")
        self._launch = replace(self._launch, rank=fitting[0])
        self._restarting = True
        try:
            with self._alone():
                self.close()
            self.start(model, lambda: False)
        finally:
            self._restarting = False

    def _put_in(self, name: str, folder: str) -> None:
        if name in self._loaded:
            return
        body = {"lora_name": name, "lora_path": folder}
        answer = self._need().post("/v1/load_lora_adapter", body)
        if answer.status_code != 200:
            raise ModelUnavailable(f"vLLM does not take adapter {folder}: {said(answer)}")
        try:
            found = self._read(name)
            check(name, found, self._known)
        except BaseException:
            self._take_out(name)
            raise
        self._known.setdefault(name, found)
        self._loaded.add(name)

    def unload(self, model: ModelRef) -> None:
        """Drop an adapter once nobody is being answered by it."""
        name = model.adapter_hash
        with self._changing:
            if name is None or name not in self._loaded:
                return
            with self._alone():
                self._loaded.discard(name)
                self._take_out(name)

    def _take_out(self, name: str) -> None:
        self._need().post("/v1/unload_lora_adapter", {"lora_name": name})

    def confirm(self, model: ModelRef) -> None:
        """ProbeFailed unless this very model answers under its name; alone, so that it is exact."""
        self.load(model)
        name = name_of(model)
        with self._alone():
            check(name, self._read(name), self._known)

    def _read(self, name: str) -> Fingerprint:
        answer = self._need().post("/v1/completions", probe_body(name))
        if answer.status_code != 200:
            raise ProbeFailed(f"{name} does not answer a probe: {said(answer)}")
        return read_fingerprint(answer.json())

    def ask(
        self, model: ModelRef, route: str, body: Mapping[str, Any], stop: Stop = lambda: False
    ) -> dict[str, Any]:
        """The whole answer; HostGone once `stop` says that nobody waits for it any more."""
        fields = {**checked_fields(route, body), "model": name_of(model)}
        with self.answering(model) as process:
            answer = process.post(f"/v1/{route}", fields, WHOLE_SECONDS, stop)
        if answer.status_code != 200:
            raise refusal(answer)
        whole: dict[str, Any] = answer.json()
        return whole

    def stream(
        self, model: ModelRef, route: str, body: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """The answer in chunks as they come; closing the iterator ends the generation."""
        fields = {**checked_fields(route, body), "model": name_of(model), "stream": True}
        with self.answering(model) as process:
            process.need()
            request = process.client.build_request("POST", f"/v1/{route}", json=fields)
            try:
                response = process.client.send(request, stream=True)
            except httpx.HTTPError as error:
                raise process.gone(error) from None
            try:
                if response.status_code != 200:
                    response.read()
                    raise process.broken(response) or refusal(response)
                for chunk in chunks(response):
                    process.heard()
                    yield chunk
            except httpx.HTTPError as error:
                raise process.gone(error) from None
            finally:
                response.close()

    @contextmanager
    def answering(self, model: ModelRef) -> Iterator[VllmProcess]:
        """The process with this model ready; no adapter is put in or taken out meanwhile."""
        while True:
            with self._changing:  # a process that is being replaced is waited for
                self._check_base(model)
            self.load(model)
            self._in_flight.enter()
            if not model.adapter_hash or model.adapter_hash in self._loaded:
                break
            self._in_flight.leave()  # it was taken out again in between
        try:
            yield self._need()
        finally:
            self._in_flight.leave()

    def is_up(self) -> bool:
        """Whether its process runs, or is just being replaced by another."""
        process = self._process
        return self._restarting or (process is not None and not process.has_ended())

    def close(self) -> None:
        """End the process, whatever it is doing, and give its memory back."""
        process, self._process = self._process, None
        self._base = None
        self._loaded.clear()
        if process:
            process.end()
            self._forget_child(process.info)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._in_flight.alone(BUSY_SECONDS) as alone:
            if not alone:
                raise EndpointNotReady(
                    f"no adapter can be changed while answers are under way, and some have been "
                    f"for {BUSY_SECONDS:.0f} s: call again once they have ended"
                )
            yield

    def _check_base(self, model: ModelRef) -> None:
        self._need()
        if self._base is None or model.revision != self._base.revision:
            raise ModelUnavailable(
                f"this vLLM holds another base than {model.base}: deploy it anew"
            )

    def _need(self) -> VllmProcess:
        process = self._process
        if process is None:
            raise HostGone("vLLM is not running")
        return process


def name_of(model: ModelRef) -> str:
    """What vLLM calls a model: its adapter's hash, or its base's."""
    return model.adapter_hash or model.revision


def check_adapter(model: ModelRef) -> int:
    """The rank of an adapter whose folder holds what its hash says; else ModelUnavailable."""
    folder = Path(model.adapter or "")
    content = check_weights_folder(folder)
    if not content.startswith(model.adapter_hash or content):
        raise ModelUnavailable(f"{folder} is not adapter {model.adapter_hash} any more")
    config = json.loads((folder / "adapter_config.json").read_bytes())
    return int(config["r"])
