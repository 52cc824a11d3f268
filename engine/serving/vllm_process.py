"""One vLLM server process: started on a socket of its own, watched until it answers, ended."""

import asyncio
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from engine.cards import is_named, read_cards
from engine.children import end_child, has_ended, start_child
from engine.errors import HostGone, Interrupted
from engine.serving.vllm_wire import said
from engine.types import ModelRef, Stop

LAUNCHER = Path(__file__).with_name("vllm_launch.py")
START_SECONDS = 900.0  # a card compiles for minutes at its first start
POLL_SECONDS = 0.2
STOP_SECONDS = 0.25  # between two looks whether anybody still waits
SILENT_SECONDS = 600.0  # without a byte, then it is taken for stuck
WHOLE_SECONDS = 3600.0  # for an answer that comes as a whole, and is silent until then
HEALTH_SECONDS = 10.0
GRACE_SECONDS = 3.0
MOST_ADAPTERS, KEPT_ADAPTERS = 4, 32  # in one batch; ready in main memory
CPU_CACHE_GIB = 1
CARD_SHARE, CARD_SPARE = 0.9, 0.95  # of a card's memory at most, and of what is free there
# What vLLM says before it ends, most telling first, and what people should do.
CAUSES = (
    (r"^\s*Value error, ", "{0}"),
    (
        r"No available memory for the cache blocks|KV cache is needed",
        "the model leaves no memory for its cache: {0}",
    ),
    (r"less than desired (GPU|CPU) memory utilization", "something else holds the memory: {0}"),
    (r"[Oo]ut of memory|OutOfMemoryError|Cannot allocate memory", "memory ran out: {0}"),
    (r"[Aa]ddress already in use", "its address is taken: {0}"),
    (r"No such file or directory|does not exist", "a file is missing: {0}"),
    (r"\b\w*(Error|Exception)\b: ", "{0}"),
)


@dataclass(kw_only=True, slots=True, frozen=True)
class Launch:
    """How vLLM is to run. `rank` is the largest of an adapter, `cards` goes to CUDA as it is, and
    `spare` bytes of each are left to others."""

    python: Path
    log_file: Path
    device: str  # cpu | cuda
    precision: str
    rank: int
    cards: str = ""
    tensor_parallel: int = 1
    spare: int = 0


class VllmProcess:
    """A running vLLM server with one base; `get` and `post` speak to it over its Unix socket."""

    def __init__(self, launch: Launch, base: ModelRef) -> None:
        self.launch = launch
        # Below /tmp, since the path of a socket may have 107 bytes at most, and a home's is longer.
        self.folder = Path(tempfile.mkdtemp(prefix="pawl-vllm-"))
        self._heard_at = time.monotonic()
        self._log_start = _size(launch.log_file)
        try:
            command = arguments(launch, base, self.folder)
            self._process, self.info = start_child(command, launch.log_file)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.client = client_on(self.socket)

    @property
    def socket(self) -> Path:
        """The Unix socket, in a folder of this user alone."""
        return self.folder / "socket"

    def wait_until_ready(self, stop: Stop) -> None:
        """Return once it answers; HostGone says in one line why it never will."""
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if stop():
                raise Interrupted("stopped while vLLM was starting")
            if self.has_ended():
                raise HostGone(f"vLLM did not start: {self.cause()}; its log is {self._log}")
            if time.monotonic() > deadline:
                raise HostGone(
                    f"vLLM did not answer within {START_SECONDS:.0f} s; its log is {self._log}"
                )
            time.sleep(POLL_SECONDS)

    def _answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.socket))
            health = self.client.get("/health", timeout=HEALTH_SECONDS)
            return health.status_code == 200
        except (OSError, httpx.HTTPError):
            return False

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        seconds: float | None = None,
        stop: Stop | None = None,
    ) -> httpx.Response:
        """One request; HostGone when the process is not there to answer, is broken, or says nothing
        for `seconds`; None: as long as a client waits for a byte. Once `stop` says so HostGone as
        well, and the work on the answer ends."""
        self.need()
        timeout = self.client.timeout if seconds is None else patience(seconds)
        try:
            if stop is None:
                answer = self.client.post(path, json=body, timeout=timeout)
            else:
                answer = asyncio.run(_post_until(self.socket, path, body, timeout, stop))
        except httpx.HTTPError as error:
            raise self.gone(error) from None
        if answer.status_code == 200:
            self.heard()
        if broken := self.broken(answer):
            raise broken
        return answer

    def need(self) -> None:
        """HostGone when it has ended."""
        if self.has_ended():
            raise HostGone(f"vLLM has ended; its log is {self._log}")

    def heard(self) -> None:
        """Note that it has just said a part of an answer."""
        self._heard_at = time.monotonic()

    def gone(self, error: Exception) -> HostGone:
        """What to raise when a request broke off; a process that is stuck is ended."""
        if isinstance(error, httpx.ReadTimeout):
            if time.monotonic() - self._heard_at < SILENT_SECONDS:
                return HostGone("vLLM answered others all the time, and this not: call again")
            end_child(self.info, GRACE_SECONDS)
            return HostGone(f"vLLM was stuck and had to be ended; its log is {self._log}")
        what = "has ended" if has_ended(self.info.pid, 1.0) else "does not answer"
        return HostGone(f"vLLM {what} ({type(error).__name__}); its log is {self._log}")

    def broken(self, answer: httpx.Response) -> HostGone | None:
        """What to raise for an answer that says that vLLM itself failed, else None."""
        if answer.status_code < 500:
            return None
        return HostGone(f"vLLM failed: {said(answer)}; its log is {self._log}")

    def has_ended(self) -> bool:
        """Whether the server process has ended by itself."""
        return has_ended(self.info.pid, 0.0)

    def end(self) -> None:
        """End it with all of its processes, and wait until they are gone."""
        end_child(self.info, GRACE_SECONDS)
        self._process.wait()
        self.client.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def cause(self) -> str:
        """Why it ended, in one line, from what it wrote since its start."""
        start = self._log_start if _size(self._log) >= self._log_start else 0
        with open(self._log, "rb") as log:
            log.seek(start)
            text = log.read().decode(errors="replace")
        return find_cause(text) or f"it ended with status {self._process.wait()}"

    @property
    def _log(self) -> Path:
        return self.launch.log_file


def find_cause(said: str) -> str | None:
    """The line of vLLM's output that tells why it ended, in words for people."""
    lines = [_plain(line) for line in said.splitlines()]
    for pattern, words in CAUSES:
        found = [line for line in lines if re.search(pattern, line)]
        if found:
            return words.format(found[0].split(" [type=")[0][:400])
    return None


def _plain(line: str) -> str:
    """A log line without colours, the process's name, the time and the place in the code."""
    line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    line = re.sub(r"^\([^)]*\)\s*", "", line)
    return re.sub(r"^(ERROR|WARNING|INFO) [0-9-]+ [0-9:]+ (\[[^]]*\]\s*)?", "", line).strip()


def arguments(launch: Launch, base: ModelRef, folder: Path) -> list[str]:
    """The command line: the launcher, vLLM's environment, and vLLM's own arguments."""
    options = {
        "--model": base.path,
        "--served-model-name": base.revision,
        "--uds": folder / "socket",
        "--dtype": launch.precision,
        "--max-model-len": "auto",
        "--max-lora-rank": launch.rank,
        "--max-loras": MOST_ADAPTERS,
        "--max-cpu-loras": KEPT_ADAPTERS,
        "--generation-config": "vllm",  # sampling is what a request says, not what a folder does
        "--tensor-parallel-size": launch.tensor_parallel,
        **_memory(launch),
    }
    flags = ["--enable-lora", "--disable-uvicorn-access-log", "--disable-log-stats"]
    flags.append("--language-model-only")  # it fetches no pictures for a base that could see them
    if launch.device == "cpu":
        flags.append("--enforce-eager")
    words = [str(word) for pair in options.items() for word in pair]
    return [str(launch.python), str(LAUNCHER), *environment(launch, folder), "--", *words, *flags]


def environment(launch: Launch, folder: Path) -> list[str]:
    """What vLLM reads from its environment, as NAME=VALUE."""
    given = {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_RPC_BASE_PATH": folder,  # its own sockets
        # A forked process would not load the launcher, and so outlive its parent.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    }
    if launch.device == "cpu":
        # Bound to cores it would be in the way of what else runs on them.
        given |= {"VLLM_CPU_KVCACHE_SPACE": CPU_CACHE_GIB, "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        given |= {"GOMP_SPINCOUNT": 1000}  # as in the worker: threads that wait let others work
    if launch.cards:
        given["CUDA_VISIBLE_DEVICES"] = launch.cards
    return [f"{name}={value}" for name, value in given.items()]


def _memory(launch: Launch) -> dict[str, str]:
    if launch.device == "cpu":
        return {}
    return {"--gpu-memory-utilization": f"{free_share(launch.cards, launch.spare):.2f}"}


def free_share(cards: str, spare: int = 0) -> float:
    """The part of a card's memory to take, from what is free on the fullest of these cards, less
    what is to be spared."""
    chosen = cards.split(",") if cards else ["0"]
    found = [card for card in read_cards() if any(is_named(card, word) for word in chosen)]
    return min([CARD_SHARE, *(CARD_SPARE * (card.free - spare) / card.total for card in found)])


async def _post_until(
    path_of_socket: Path, path: str, body: Mapping[str, Any], timeout: httpx.Timeout, stop: Stop
) -> httpx.Response:
    """One request on a connection of its own, whose end is what ends the work on the answer."""
    transport = httpx.AsyncHTTPTransport(uds=str(path_of_socket), verify=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://vllm") as client:
        answer = asyncio.create_task(client.post(path, json=body, timeout=timeout))
        try:
            while not (await asyncio.wait({answer}, timeout=STOP_SECONDS))[0]:
                if stop():
                    raise HostGone("nobody waits for this answer any more")
            return answer.result()
        finally:
            answer.cancel()
            await asyncio.wait({answer})


def client_on(path: Path) -> httpx.Client:
    """A client of the server on that socket; it waits SILENT_SECONDS for each next byte."""
    limits = httpx.Limits(max_connections=256, max_keepalive_connections=32)
    transport = httpx.HTTPTransport(uds=str(path), limits=limits)
    timeout = patience(SILENT_SECONDS)
    return httpx.Client(transport=transport, base_url="http://vllm", timeout=timeout)


def patience(seconds: float) -> httpx.Timeout:
    """Waits `seconds` for a byte of an answer, and for a free connection as long as it takes."""
    return httpx.Timeout(None, connect=10.0, read=seconds)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
