"""A real vLLM behind the seam: the same answers as the worker, never a stale one, nothing left over.

Three starts of vLLM in all, and one that fails: they take most of the time here.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from sqlmodel import select

from app.admin import call_admin
from data.store import Store
from data.tables import Child, EndpointUse, Job
from engine.children import start_child
from engine.errors import HostGone, Interrupted, ModelUnavailable, ProbeFailed, RequestRefused
from engine.models.registry import with_adapter
from engine.models.worker_engine import WorkerEngine
from engine.resources import child_records
from engine.scheduler import _end_children
from engine.serving.vllm_engine import VllmEngine
from engine.serving.vllm_host import VllmHost, vllm_host
from engine.types import Answer, Ask, ModelRef
from tests.models import lay_base
from tests.server.deployed import RUN, lay_version
from tests.server.process import Server
from tests.serving.plain import plain_answers
from tests.serving.vllm_lives import cpu_seconds, group_of, vllm_python
from tests.stopwatch import seconds_until
from tests.waiting import soon
from tests.worker.samples import asks, job, messages, never

pytestmark = pytest.mark.timeout(600)

QUESTIONS = (
    *("What is the capital of France?", "Name three colours.", "Why is the sky blue?"),
    *("Who wrote Hamlet?", "Say good morning.", "What do bees make?", "Spell the word cat."),
    *("Count to five.", "Is fire cold?", "Name a river.", "List two fruits.", "2 + 2 = ?"),
    *(
        "Say <|im_end|> twice.",
        "What is water?",
        "Which planet is red?",
        "How many legs has a cow?",
    ),
)
INFERENCE = select(Job).where(Job.type == "inference")
SHORT: dict[str, Any] = {
    "messages": messages("17 + 25 = ?"),
    "max_tokens": 3,
    "temperature": 0,
    "logprobs": True,
}
# Neither of the words that end an answer may be said: it is under way until someone ends it.
ENDLESS: dict[str, Any] = {"max_tokens": 6000, "logit_bias": {"0": -100, "2": -100}}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerEngine]:
    """transformers in float32, which is what vLLM computes in on a CPU as well."""
    vllm_python()
    engine = WorkerEngine(log_dir=tmp_path_factory.mktemp("logs"), precision="float32", threads=2)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def adapters(
    worker: WorkerEngine, base: ModelRef, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ModelRef, ModelRef]:
    """Two adapters from real trainings of four steps."""
    first = trained(worker, base, tmp_path_factory.mktemp("adapter"), rank=4)
    return first, trained(worker, base, tmp_path_factory.mktemp("adapter"), rank=8)


@pytest.fixture(scope="module")
def large(
    worker: WorkerEngine, base: ModelRef, tmp_path_factory: pytest.TempPathFactory
) -> ModelRef:
    """One of a higher rank than vLLM is started for at first."""
    return trained(worker, base, tmp_path_factory.mktemp("adapter"), rank=32, rows=12)


def trained(
    worker: WorkerEngine, base: ModelRef, folder: Path, rank: int, rows: int = 24
) -> ModelRef:
    training = job(folder, base, rows, rank=rank, batch_size=6, learning_rate=1e-3)
    result = worker.train(training, lambda progress: None, never)
    return with_adapter(base, Path(result.adapter_dir))


@pytest.fixture(scope="module")
def expected(
    worker: WorkerEngine, base: ModelRef, adapters: tuple[ModelRef, ModelRef], large: ModelRef
) -> dict[str | None, list[Answer]]:
    """The worker's answers by adapter; it ends afterwards, to leave the cores to vLLM."""
    found = {model.adapter_hash: answers_of(worker, model) for model in (base, adapters[0])}
    worker.rest()
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(Store(tmp_path_factory.mktemp("home") / "pawl.db")) as store:
        yield store


@pytest.fixture(scope="module")
def host(
    base: ModelRef, expected: object, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmHost]:
    """The one vLLM of most tests, with the embedded model."""
    record, forget = child_records(store, "serving")
    logs = tmp_path_factory.mktemp("vllm")
    host = vllm_host(vllm_python(), log_dir=logs, record_child=record, forget_child=forget)
    host.start(base, never)
    yield host
    host.close()


def thirty_two() -> list[Ask]:
    """Sums and plain questions, greedy."""
    plain = [
        Ask(key=text, messages=[{"role": "user", "content": text}], max_tokens=16)
        for text in QUESTIONS
    ]
    return [*asks(16, max_tokens=12), *plain]


def answers_of(engine: WorkerEngine | VllmEngine, model: ModelRef) -> list[Answer]:
    """What an engine answers, in the order of the asks."""
    found: dict[str, Answer] = {}
    engine.generate(model, thirty_two(), lambda b: found.update({a.key: a for a in b}), never)
    return [found[ask.key] for ask in thirty_two()]


def test_vllm_answers_as_the_worker_does_with_and_without_an_adapter(
    host: VllmHost,
    base: ModelRef,
    adapters: tuple[ModelRef, ModelRef],
    worker: WorkerEngine,
    expected: dict[str | None, list[Answer]],
) -> None:
    """Text, prompt tokens, answer tokens and why it ended, 32 of 32, greedy, in float32."""
    engine = VllmEngine(host, worker, on_card=False)  # type: ignore[arg-type]
    assert engine.name == "vllm-cpu-float32"
    for model in (base, adapters[0]):
        answers = [seen(answer) for answer in answers_of(engine, model)]
        assert answers == [seen(answer) for answer in expected[model.adapter_hash]]
    pairs = zip(expected[None], expected[adapters[0].adapter_hash], strict=True)
    assert sum(one.text != other.text for one, other in pairs) >= 8


def test_vllm_answers_as_transformers_with_peft(
    host: VllmHost,
    base: ModelRef,
    adapters: tuple[ModelRef, ModelRef],
    worker: WorkerEngine,
) -> None:
    """Our worker wears an adapter by merging it; here PEFT's own layers say what is right."""
    engine = VllmEngine(host, worker, on_card=False)  # type: ignore[arg-type]
    for model in (base, adapters[0]):
        answers = [seen(answer) for answer in answers_of(engine, model)]
        assert answers == [whole(one) for one in plain_answers(model, thirty_two())]


def seen(answer: Answer) -> tuple[object, ...]:
    """What is compared of an answer."""
    return whole(
        (answer.key, answer.text or "", answer.tokens_in, answer.tokens_out, answer.finish)
    )


def whole(seen: tuple[object, ...]) -> tuple[object, ...]:
    """Without a character that the length limit cut in half; vLLM leaves it out."""
    key, text, *rest = seen
    return key, str(text).rstrip("\N{REPLACEMENT CHARACTER}"), *rest


def test_prompts_are_the_ids_that_the_renderer_makes(host: VllmHost, base: ModelRef) -> None:
    from transformers import AutoTokenizer

    from engine.models.renderer import render_prompt

    tokenizer = AutoTokenizer.from_pretrained(base.path, local_files_only=True)
    hard = [
        messages("a\n\n b <|im_start|>system\nx<|im_end|>"),
        [*messages("1"), {"role": "assistant", "content": "eins"}, {"role": "user", "content": ""}],
        [{"role": "user", "content": "Größe 🌍 {{ 1 + 1 }} </s>"}],
    ]
    for conversation in [*hard, *(ask.messages for ask in thirty_two())]:
        with host.answering(base) as process:
            told = process.post("/tokenize", {"messages": conversation}).json()["tokens"]
        assert told == render_prompt(tokenizer, conversation)


def test_no_answer_is_stale_over_fifty_random_steps(
    host: VllmHost, base: ModelRef, adapters: tuple[ModelRef, ModelRef]
) -> None:
    """Loads, unloads and asks in any order; the logprobs say who answered."""
    models = (base, *adapters)
    first = {model.identity: reading(host, model) for model in models}
    assert len({values for values in first.values()}) == 3
    random = Random(20)
    asked = 0
    for _ in range(50):
        step, model = random.choice(("load", "unload", "ask", "ask")), random.choice(models)
        if step == "load":
            host.load(model)
        elif step == "unload":
            host.unload(model)
        else:
            asked += 1
            near = {name: gap(reading(host, model), values) for name, values in first.items()}
            assert min(near, key=lambda name: near[name]) == model.identity
            assert near[model.identity] < 1e-3
    assert asked >= 20


def reading(host: VllmHost, model: ModelRef) -> tuple[float, ...]:
    return logprobs(host.ask(model, "chat/completions", SHORT))


def logprobs(answer: dict[str, Any]) -> tuple[float, ...]:
    return tuple(one["logprob"] for one in answer["choices"][0]["logprobs"]["content"])


def gap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def test_an_adapter_that_was_swapped_fails_the_evaluation_and_hands_nothing_over(
    host: VllmHost,
    worker: WorkerEngine,
    adapters: tuple[ModelRef, ModelRef],
) -> None:
    """What vLLM answers under one name is another adapter, as a fault of its own might have it."""
    ours, other = adapters
    host.confirm(ours)
    handed: list[list[Answer]] = []
    engine = VllmEngine(host, worker, on_card=False)  # type: ignore[arg-type]
    swap(host, ours, other)
    with pytest.raises(ProbeFailed, match=f"{ours.adapter_hash}"):
        engine.generate(ours, thirty_two()[:2], handed.append, never)
    assert handed == []
    swap(host, ours, ours)
    host.confirm(ours)
    with pytest.raises(ProbeFailed, match="nothing of it was used"):  # between the two probes
        engine.generate(ours, thirty_two()[:2], handed.append, swaps_once(host, ours, other))
    assert handed == []
    swap(host, ours, ours)
    host.confirm(ours)


def swap(host: VllmHost, name: ModelRef, content: ModelRef) -> None:
    """Put other content under a name, behind the host's back."""
    process = host._need()
    process.post("/v1/unload_lora_adapter", {"lora_name": name.adapter_hash})
    body = {"lora_name": name.adapter_hash, "lora_path": content.adapter}
    assert process.post("/v1/load_lora_adapter", body).status_code == 200


def swaps_once(host: VllmHost, name: ModelRef, content: ModelRef) -> Any:
    """A look whether to stop, which swaps an adapter at the first look of the evaluation itself."""
    done: list[bool] = []

    def stop() -> bool:
        if not done and host._in_flight._inside:
            done.append(True)
            swap(host, name, content)
        return False

    return stop


def test_a_folder_that_holds_other_content_than_its_name_is_refused(
    host: VllmHost, adapters: tuple[ModelRef, ModelRef]
) -> None:
    with pytest.raises(ModelUnavailable, match="is not adapter 0123456789abcdef"):
        host.load(replace(adapters[0], adapter_hash="0123456789abcdef"))


def test_a_stream_comes_in_pieces_and_its_close_ends_the_generation(
    host: VllmHost, base: ModelRef
) -> None:
    body = {**SHORT, "max_tokens": 8}
    whole = host.ask(base, "chat/completions", body)["choices"][0]["message"]["content"]
    chunks = list(host.stream(base, "chat/completions", body))
    pieces = [one["choices"][0]["delta"].get("content") or "" for one in chunks if one["choices"]]
    assert "".join(pieces) == whole and len(chunks) > 3
    long = {"prompt": "Once upon a time", **ENDLESS}
    stream = host.stream(base, "completions", long)
    assert next(iter(stream))["choices"]
    assert host.pid is not None
    processes = group_of(host.pid)
    assert not is_idle(processes)
    stream.close()  # type: ignore[attr-defined]
    assert seconds_until(lambda: is_idle(processes)) < 20


def is_idle(processes: list[int]) -> bool:
    """Whether they use next to no processor time for a while; a generation takes all of it."""
    before, began = cpu_seconds(processes), time.monotonic()
    time.sleep(1.0)
    return (cpu_seconds(processes) - before) / (time.monotonic() - began) < 0.1


def test_an_answer_that_nobody_waits_for_ends(host: VllmHost, base: ModelRef) -> None:
    long = {"prompt": "Once upon a time", **ENDLESS}
    began = time.monotonic()
    with pytest.raises(HostGone, match="nobody waits"):
        host.ask(base, "completions", long, lambda: time.monotonic() - began > 1.5)
    assert time.monotonic() - began < 30  # such an answer takes minutes
    assert host.pid is not None
    processes = group_of(host.pid)
    assert seconds_until(lambda: is_idle(processes)) < 20


def test_an_adapter_is_loaded_once_nobody_is_being_answered(
    host: VllmHost, base: ModelRef, adapters: tuple[ModelRef, ModelRef]
) -> None:
    host.unload(adapters[0])
    long = {"prompt": "Once upon a time", **ENDLESS}
    stream = host.stream(base, "completions", long)
    next(iter(stream))
    load = threading.Thread(target=host.load, args=(adapters[0],))
    late = threading.Thread(target=host.ask, args=(base, "chat/completions", SHORT))
    load.start()
    assert soon(lambda: host._in_flight._wanting_alone == 1, 60)
    assert not soon(lambda: not load.is_alive(), 1.0)
    late.start()
    assert not soon(lambda: not late.is_alive(), 1.0)  # the load has waited for longer
    next(iter(stream))
    stream.close()  # type: ignore[attr-defined]
    load.join(60)
    late.join(60)
    assert not load.is_alive() and not late.is_alive()
    host.confirm(adapters[0])


def test_what_cannot_be_answered_is_refused_with_the_reason(host: VllmHost, base: ModelRef) -> None:
    def refused(route: str, **fields: Any) -> RequestRefused:
        with pytest.raises(RequestRefused) as info:
            host.ask(base, route, {**SHORT, **fields})
        return info.value

    assert "chat_template" in str(refused("chat/completions", chat_template="{{ x }}"))
    assert "truncate_prompt_tokens" in str(refused("chat/completions", truncate_prompt_tokens=3))
    assert "temperature" in str(refused("chat/completions", temperature=-1))
    assert refused("chat/completions", max_tokens=9000).code == "context_length_exceeded"
    assert "no route" in str(refused("v1/load_lora_adapter"))


def test_a_stop_ends_an_evaluation_under_way(
    host: VllmHost, base: ModelRef, worker: WorkerEngine
) -> None:
    engine = VllmEngine(host, worker, on_card=False)  # type: ignore[arg-type]
    looks: list[float] = []

    def stop() -> bool:
        looks.append(time.monotonic())
        return host._in_flight._inside > 0

    long = [replace(ask, max_tokens=4000, temperature=1.0) for ask in thirty_two()[:4]]
    with pytest.raises(Interrupted):
        engine.generate(base, long, lambda batch: None, stop)
    assert time.monotonic() - looks[-1] < 30  # such an answer takes minutes
    assert host.pid is not None
    processes = group_of(host.pid)
    assert seconds_until(lambda: is_idle(processes)) < 20


@pytest.mark.long  # beside other tests a tenth is within the noise
def test_our_part_of_a_call_is_a_tenth_at_most(host: VllmHost, base: ModelRef) -> None:
    """Against the same request sent to vLLM directly; in turn, the fastest of five each."""
    body = {**SHORT, "max_tokens": 12}
    process = host._need()
    direct, ours = [], []
    for _ in range(5):
        began = time.perf_counter()
        process.client.post("/v1/chat/completions", json={**body, "model": base.revision}).json()
        direct.append(time.perf_counter() - began)
        began = time.perf_counter()
        host.ask(base, "chat/completions", body)
        ours.append(time.perf_counter() - began)
    assert min(ours) <= 1.1 * min(direct)


def test_a_start_that_fails_says_why_in_one_line(base: ModelRef, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "architectures": ["NoSuch"]}')
    host = vllm_host(vllm_python(), log_dir=tmp_path)
    with pytest.raises(HostGone) as info:
        host.start(replace(base, path=str(tmp_path)), never)
    text = str(info.value)
    assert text.startswith("vLLM did not start: ") and str(tmp_path / "vllm.log") in text
    assert "NoSuch" in text and "\n" not in text
    assert not host.is_up()
    nowhere = vllm_host(tmp_path / "bin" / "python", log_dir=tmp_path)
    with pytest.raises(ModelUnavailable, match="run.py install vllm"):
        nowhere.start(base, never)


def test_deployed_versions_answer_by_vllm_of_which_nothing_outlives_a_killed_server(
    base: ModelRef, tmp_path: Path
) -> None:
    """And the next server ends only what was recorded, by number, start time and command."""
    lay_base(tmp_path, base)
    lay_version(tmp_path, base)
    server = Server(tmp_path, PAWL_VLLM=str(vllm_python()))
    try:
        one, other = deployed_answers(server)
        assert gap(one, other) > 1e-3
        assert {job.result["engine"] for job in server.read(INFERENCE)} == {"vllm-cpu-float32"}
        whoever_leaves_has_used_the_prompt(server)
        leader = server.read(select(Child).where(Child.purpose == "serving"))[0].pid
        assert len(group_of(leader)) >= 3
    finally:
        server.kill()
    assert seconds_until(lambda: not group_of(leader)) < 5
    bystander, info = start_child(["sleep", "600"], tmp_path / "sleep.log")
    with closing(Store(server.home.database)) as store:
        # It has a recorded number, as a process may that came after the one recorded.
        child_records(store, "serving")[0](replace(info, started=info.started - 1))
    again = Server(tmp_path)
    try:
        assert bystander.poll() is None
        assert all(child.ended_at for child in again.read(select(Child)))
    finally:
        again.close()
        bystander.kill()
        bystander.wait()


def deployed_answers(server: Server) -> list[tuple[float, ...]]:
    """How sure a run's candidate and its base are of what they say, deployed on vLLM and asked over REST."""
    admin = server.home.admin_socket
    call_admin(admin, "setting.set", name="engine", value="vllm")
    key = call_admin(admin, "key.create", name="k", role="developer")["key"]
    headers, timeout = {"Authorization": f"Bearer {key}"}, 300
    url = f"{server.url}/v1"
    with httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False) as client:
        return [deployed(client, f"{RUN}/{name}") for name in ("candidate-1", "base")]


def whoever_leaves_has_used_the_prompt(server: Server) -> None:
    key = server.home.owner_key.read_text().strip()
    body = {**SHORT, **ENDLESS, "model": f"{RUN}/base", "stream": True}
    with httpx.stream(
        "POST",
        f"{server.url}/v1/chat/completions",
        json=body,
        headers={"Authorization": f"Bearer {key}"},
        timeout=60,
    ) as answer:
        next(line for line in answer.iter_lines() if '"content":"' in line.replace(": ", ":"))
    (used,) = server.wait_for(select(EndpointUse).where(EndpointUse.status == "broken"), 20)
    assert used.tokens_in > 8 and 1 <= used.tokens_out < 6000


def deployed(client: httpx.Client, version: str) -> tuple[float, ...]:
    spec = {"name": version.partition("/")[2], "version": version}
    made = client.post("/job", json={"type": "inference", "spec": spec})
    assert made.status_code == 201, made.text
    answer = client.post("/chat/completions", json={**SHORT, "model": version})
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"]
    return logprobs(answer.json())


def test_a_higher_rank_has_vllm_started_again_and_the_next_server_ends_what_was_left(
    host: VllmHost, adapters: tuple[ModelRef, ModelRef], large: ModelRef, store: Store
) -> None:
    """Last, since it ends the process of all others."""
    before, leader = reading(host, adapters[1]), host.pid
    host.load(large)
    assert leader is not None and host.pid is not None
    assert host.pid != leader and not group_of(leader)
    assert gap(reading(host, adapters[1]), before) < 1e-3
    assert gap(reading(host, large), before) > 1e-3
    leader = host.pid
    _end_children(store)
    assert seconds_until(lambda: not group_of(leader) and not host.is_up()) < 5
    with pytest.raises(HostGone, match="vllm.log"):
        host.ask(large, "chat/completions", SHORT)
    host.close()
    with pytest.raises(HostGone, match="not running"):
        host.ask(large, "chat/completions", SHORT)
