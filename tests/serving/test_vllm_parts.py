"""The parts of vLLM's host that need no vLLM: causes in words, fingerprints, who may be inside."""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from data.home import open_home
from data.store import Store
from data.tables import Setting
from engine.errors import HostGone, ModelUnavailable, ProbeFailed, RequestRefused
from engine.models.worker_engine import WorkerEngine
from engine.resources import Worker
from engine.serving import vllm_process
from engine.serving.calls import Chunks
from engine.serving.choice import keep_first, make_host
from engine.serving.fingerprint import check, read_fingerprint
from engine.serving.in_flight import InFlight
from engine.serving.places import Places
from engine.serving.students import Students
from engine.serving.vllm_process import Launch, VllmProcess, arguments, find_cause, free_share
from engine.serving.vllm_wire import checked_fields
from engine.serving.worker_host import WorkerHost
from engine.types import ModelRef
from tests.waiting import soon

TOO_FULL = """\
(APIServer pid=7) INFO 11-30 14:01:42 [api_utils.py:286] non-default args: {}
(EngineCore pid=9) \x1b[0;36mERROR 11-30 14:02:01 [core.py:99]\x1b[0m EngineCore failed to start.
(EngineCore pid=9) ERROR 11-30 14:02:01 [core.py:99] ValueError: Free memory on device cuda:0 \
(3.1/139.8 GiB) on startup is less than desired GPU memory utilization (0.9, 125.8 GiB).
(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above.
"""


SAID = [{"role": "user", "content": "Hi"}]
STUCK = """\
import socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[sys.argv.index("--uds") + 1])
server.listen()
kept = []
while True:
    kept.append(server.accept()[0])
    if b"GET /health" in kept[-1].recv(1000):
        kept[-1].send(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (TOO_FULL, "something else holds the memory: ValueError: Free memory on device cuda:0"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", "memory ran out: torch.OutOf"),
        ("OSError: [Errno 98] Address already in use", "its address is taken: OSError"),
        (
            "ValidationError: 1 validation error\n  Value error, Model X is unknown [type=v",
            "Value e",
        ),
        ("KeyError: 'rope'\nRuntimeError: Engine core initialization failed.", "KeyError: 'rope'"),
    ],
)
def test_why_vllm_ended_is_said_in_one_line(said: str, expected: str) -> None:
    found = find_cause(said)
    assert found is not None and found.startswith(expected)
    assert "\n" not in found and "\x1b" not in found and "[type=" not in found


def test_an_end_without_a_word_has_no_cause() -> None:
    assert find_cause("(APIServer pid=7) INFO 11-30 14:01:42 [api.py:1] ready\n") is None


def test_a_fingerprint_must_be_nearest_to_its_own() -> None:
    known = {"base": (-1.0, -2.0), "one": (-1.5, -2.0)}
    check("one", (-1.5, -2.0), known)
    check("one", (-1.495, -2.0), known)
    check("two", (-1.0, -2.5), known)
    with pytest.raises(ProbeFailed, match="base answers where one was asked"):
        check("one", (-1.0, -2.0), known)
    with pytest.raises(ProbeFailed, match="base answers where two was asked"):
        check("two", (-1.0, -2.0), known)
    with pytest.raises(ProbeFailed, match=r"one does not answer as before .*0\.100"):
        check("one", (-1.6, -2.0), known)
    with pytest.raises(ProbeFailed, match="one does not answer as before"):
        check("one", (-1.5, -2.0, 0.0), known)


def test_a_fingerprint_holds_the_prompts_logprobs_and_the_answers_tokens() -> None:
    choice = {
        "prompt_logprobs": [None, {"17": {"logprob": -3.5}}],
        "logprobs": {"tokens": ["token_id:5"], "token_logprobs": [-0.25]},
    }
    assert read_fingerprint({"choices": [choice]}) == (-3.5, 5.0, -0.25)


def test_whoever_wants_to_be_alone_waits_for_those_inside_and_goes_before_new_ones() -> None:
    doors, order = InFlight(), []

    def alone() -> None:
        with doors.alone():
            order.append("alone")

    def late() -> None:
        with doors.inside():
            order.append("late")

    with doors.inside():
        first = threading.Thread(target=alone)
        first.start()
        assert soon(lambda: doors._wanting_alone == 1, 60)
        second = threading.Thread(target=late)
        second.start()
        assert not soon(lambda: bool(order), 0.2)
    first.join(60)
    second.join(60)
    assert order == ["alone", "late"]


def test_whoever_cannot_be_alone_in_time_is_told_and_keeps_nobody_out() -> None:
    doors = InFlight()
    with doors.inside(), doors.alone(0.01) as alone:
        assert not alone
        with doors.inside():
            pass
    with doors.alone(0.01) as alone:
        assert alone


def test_only_openai_fields_reach_vllm() -> None:
    body = {"messages": SAID, "model": "x", "stream": True, "user": "me", "metadata": {}, "n": 2}
    assert checked_fields("chat/completions", body) == {"messages": SAID, "n": 2}
    for name in ("chat_template", "chat_template_kwargs", "cache_salt", "lora_request", "priority"):
        with pytest.raises(RequestRefused, match=name):
            checked_fields("chat/completions", {"messages": SAID, name: "x"})
    with pytest.raises(RequestRefused, match="messages"):
        checked_fields("completions", {"messages": []})
    with pytest.raises(RequestRefused, match="no route"):
        checked_fields("v1/unload_lora_adapter", {})


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"image_url": "http://127.0.0.1/"},
        "a part that is no record",
    ],
)
def test_nothing_but_texts_of_a_conversation_reaches_vllm(part: Any) -> None:
    text = {"type": "text", "text": "What is this?"}
    fields = checked_fields("chat/completions", {"messages": [{"role": "user", "content": [text]}]})
    assert fields == {"messages": [{"role": "user", "content": "What is this?"}]}
    with pytest.raises(RequestRefused, match=r"messages\[0\].content: give a text"):
        content = [text, part]
        checked_fields("chat/completions", {"messages": [{"role": "user", "content": content}]})


def test_a_vllm_that_does_not_answer_any_more_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    monkeypatch.setattr(vllm_process, "LAUNCHER", tmp_path / "stuck.py")
    monkeypatch.setattr(vllm_process, "SILENT_SECONDS", 0.3)
    launch = Launch(
        python=Path(sys.executable),
        log_file=tmp_path / "vllm.log",
        device="cpu",
        precision="float32",
        rank=8,
    )
    process = VllmProcess(launch, ModelRef(base="b", path="/m/b", revision="r1"))
    try:
        process.wait_until_ready(lambda: False)
        process.heard()
        monkeypatch.setattr(vllm_process, "SILENT_SECONDS", 600.0)
        with pytest.raises(HostGone, match="answered others"):
            process.post("/v1/completions", {}, 0.05)
        assert not process.has_ended()
        monkeypatch.setattr(vllm_process, "SILENT_SECONDS", 0.0)
        with pytest.raises(HostGone, match="was stuck and had to be ended"):
            process.post("/v1/completions", {})
        deadline = time.monotonic() + 60
        while not process.has_ended():  # killed, and gone as soon as the system gets to it
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.end()


def test_a_stream_ends_with_whatever_went_wrong(tmp_path: Path) -> None:
    host, fault = WorkerHost(log_dir=tmp_path, device="cpu"), OSError(28, "no space left")

    def complete(*given: Any) -> None:
        raise fault

    host._engine.complete = complete  # type: ignore[method-assign]
    model = ModelRef(base="b", path="/m/b", revision="r1")
    found: list[BaseException] = []

    def read() -> None:
        try:
            list(host.stream(model, "chat/completions", {"messages": SAID}))
        except OSError as error:
            found.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(60)
    assert found == [fault]


def test_a_close_in_the_last_moment_of_a_chunk_ends_the_answer() -> None:
    """It comes from another thread once the chunk is there, and before the chunk's turn is over."""
    ended: list[bool] = []

    def answer() -> Iterator[dict[str, Any]]:
        try:
            yield from ({"n": n} for n in range(9))
        finally:
            ended.append(True)

    class LateTurn:
        """A lock under which, once, someone else closes the answer just before it is given back."""

        def __init__(self) -> None:
            self.lock, self.closes = threading.Lock(), [True]
            self.acquire, self.release = self.lock.acquire, self.lock.release

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            if self.closes:
                self.closes.clear()
                chunks.close()
            self.lock.release()

    chunks = Chunks(answer())
    chunks._turn = LateTurn()  # type: ignore[assignment]
    next(chunks)
    assert ended


def test_the_share_of_a_card_comes_from_what_is_free_on_the_fullest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = ["0, GPU-a, NVIDIA L4, 24000, 23900", "1, GPU-b, NVIDIA L4, 24000, 12000"]
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n" + "".join(f"echo '{c}'\n" for c in cards))
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert free_share("0") == 0.9
    assert free_share("0,1") == pytest.approx(0.475)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b")
    assert free_share("GPU-b") == pytest.approx(0.475)


def test_vllm_is_told_to_spread_over_the_cards_that_it_may_see(tmp_path: Path) -> None:
    launch = Launch(
        python=Path("/v/bin/python"),
        log_file=tmp_path / "vllm.log",
        device="cuda",
        precision="bfloat16",
        rank=32,
        cards="0,1",
        tensor_parallel=2,
    )
    words = arguments(launch, ModelRef(base="b", path="/m/b", revision="r1"), tmp_path)
    text = " ".join(words)
    assert "CUDA_VISIBLE_DEVICES=0,1 -- " in text and "--tensor-parallel-size 2" in text
    assert "--max-lora-rank 32" in text and "--served-model-name r1" in text
    assert "--enforce-eager" not in text and "--trust-remote-code" not in text


def test_what_a_process_that_serves_measured_is_what_the_next_one_answers_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PAWL_VLLM", raising=False)
    home, base = open_home(tmp_path), ModelRef(base="b", path="/m/b", revision="r1")

    def measure(engine: WorkerEngine, *given: Any) -> str:
        engine.process.precision = engine.process.precision or "bfloat16"
        return engine.name

    monkeypatch.setattr(WorkerEngine, "prepare", measure)
    places = Places(train_device="cpu", serve_device="cpu")
    with contextlib.closing(Store(home.database)) as store:
        first = make_host(store, home, places)
        first.start(base, lambda: False)
        assert first.name == "transformers-cpu-bfloat16"
        assert make_host(store, home, places).name == first.name
    other = WorkerEngine(log_dir=tmp_path, device="cpu", precision="float32")
    keep_first(home.path, "cpu", other)  # what is kept stays
    assert json.loads((home.path / "precision-cpu.json").read_text())["precision"] == "bfloat16"


def test_the_setting_says_who_answers_and_acts_from_the_next_start_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PAWL_VLLM", raising=False)
    home, base = open_home(tmp_path), ModelRef(base="b", path="/m/b", revision="r1")
    with contextlib.closing(Store(home.database)) as store:
        worker = Worker(store, home, lambda: "cpu")
        store.write(lambda s: s.add(Setting(name="engine", value="vllm")))
        without = Students(store, home, worker)
        with pytest.raises(ModelUnavailable, match="run.py install vllm"):
            without.ready(base, lambda: False)
        monkeypatch.setenv("PAWL_VLLM", "/v/bin/python")
        students = Students(store, home, worker)
        assert students.ready(base, lambda: False).name == "vllm-cpu-float32"
        with pytest.raises(ModelUnavailable, match="run.py install vllm"):
            without.ready(base, lambda: False)
        students.close(1.0)
