"""Deployed versions as callers meet them: OpenAI's client, the published client, sleep and waking."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from sqlmodel import col, select

from app.admin import call_admin
from data.home import open_home
from data.tables import Child, EndpointUse, Job, Lease, now
from engine.types import ModelRef
from tests.models import lay_base
from tests.published_client import install
from tests.server.deployed import RUN, SYSTEM, lay_version
from tests.server.process import ROOT, Server, environment_for, is_running
from tests.waiting import eventually

CANDIDATE = f"{RUN}/candidate-1"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
FEW: dict[str, Any] = {"messages": QUESTION, "max_tokens": 8, "temperature": 0}
IDLE_SECONDS = 5.0  # long enough for two calls at once to be answered by one start


@dataclass(kw_only=True)
class Place:
    """A server on a home with run sums-1, and a key to it."""

    home: Path
    server: Server
    key: str
    checkpoint: str
    http: httpx.Client

    def client(self, key: str | None = None) -> openai.OpenAI:
        given = {"base_url": f"{self.server.url}/v1", "api_key": key or self.key}
        return openai.OpenAI(**given, max_retries=0, http_client=self.http)

    def rest(
        self, method: str, path: str, body: Any = None, timeout: float = 120
    ) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self.key}"}
        url = f"{self.server.url}/v1{path}"
        answer = self.http.request(method, url, json=body, headers=headers, timeout=timeout)
        return answer.status_code, answer.json()

    def deploy(self, **spec: Any) -> tuple[int, dict[str, Any]]:
        return self.rest("POST", "/job", {"type": "inference", "spec": spec})

    def job(self, version: str) -> dict[str, Any]:
        """The newest job that deploys a version."""
        items = self.rest("GET", "/job?type=inference")[1]["items"]
        return next(one for one in items if one["inference"]["model"] == version)

    def wait(self, version: str, state: str) -> dict[str, Any]:
        """The job of a version once it is in that state."""

        def found() -> dict[str, Any] | None:
            item = self.job(version)
            assert item["status"] != "failed", item
            return item if item["inference"]["state"] == state else None

        return eventually(found, pause=0.1)  # a key may not ask more often


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, base: ModelRef) -> Iterator[Place]:
    """A server on which base and candidate are deployed."""
    home = tmp_path_factory.mktemp("deployed")
    open_home(home)
    lay_base(home, base)
    checkpoint = lay_version(home, base)
    server = Server(home, PAWL_ENDPOINT_IDLE_SECONDS="600")
    key = call_admin(server.home.admin_socket, "key.create", name="k", role="developer")["key"]
    http = httpx.Client(trust_env=False, timeout=120)
    made = Place(home=home, server=server, key=key, checkpoint=checkpoint, http=http)
    try:
        assert made.deploy(name="sums", version=CANDIDATE)[0] == 201
        assert made.deploy(model=base.base)[0] == 201
        yield made
    finally:
        made.http.close()
        made.server.close()


def test_openai_chats_with_a_deployed_version(place: Place) -> None:
    client = place.client()
    answer = client.chat.completions.create(model=CANDIDATE, **FEW)
    assert answer.model == CANDIDATE and answer.usage
    assert answer.usage.completion_tokens <= 8 and answer.usage.prompt_tokens > 8
    text = answer.choices[0].message.content
    streamed = list(client.chat.completions.create(model=CANDIDATE, stream=True, **FEW))
    pieces = [chunk.choices[0].delta.content or "" for chunk in streamed]
    assert "".join(pieces) == text and len([piece for piece in pieces if piece]) > 1
    assert streamed[-1].choices[0].finish_reason == answer.choices[0].finish_reason


def test_a_version_is_asked_as_it_was_evaluated_unless_the_caller_says_otherwise(
    place: Place, base: ModelRef
) -> None:
    client, said = place.client(), [{"role": "system", "content": SYSTEM}, *QUESTION]
    short = FEW | {"max_tokens": 1}
    usual = client.chat.completions.create(model=CANDIDATE, **short)
    spelled = client.chat.completions.create(model=CANDIDATE, **short | {"messages": said})
    other = [{"role": "system", "content": "You are a pirate who talks much."}, *QUESTION]
    own = client.chat.completions.create(model=CANDIDATE, **short | {"messages": other})
    assert usual.usage == spelled.usage != own.usage


def test_adapter_and_base_answer_in_turn_each_as_itself(place: Place, base: ModelRef) -> None:
    client, said = place.client(), [{"role": "system", "content": SYSTEM}, *QUESTION]
    asked = FEW | {"messages": said, "max_tokens": 2, "logprobs": True}
    answers: dict[str, set[float]] = {CANDIDATE: set(), base.base: set()}
    for model in [*answers, *answers]:
        answer = client.chat.completions.create(model=model, **asked)
        told = answer.choices[0].logprobs
        assert told and told.content
        answers[model].add(told.content[0].logprob)
    assert all(len(found) == 1 for found in answers.values())
    assert answers[CANDIDATE] != answers[base.base]


def test_logprobs_stop_words_and_plain_completions(place: Place, base: ModelRef) -> None:
    client = place.client()
    answer = client.chat.completions.create(
        model=base.base, logprobs=True, top_logprobs=2, **FEW | {"max_tokens": 3}
    )
    told = answer.choices[0].logprobs
    assert told and told.content and len(told.content) == 3
    assert told.content[0].logprob == told.content[0].top_logprobs[0].logprob < 0
    assert "".join(one.token for one in told.content) == answer.choices[0].message.content
    plain = client.completions.create(
        model=base.base, prompt="The capital of France is", max_tokens=5, temperature=0, stop=["."]
    )
    assert plain.choices[0].text == " Paris" and plain.choices[0].finish_reason == "stop"


def test_names_are_listed_and_refusals_raise_what_openai_raises(
    place: Place, base: ModelRef
) -> None:
    client = place.client()
    assert {CANDIDATE, base.base} <= {model.id for model in client.models.list()}
    assert client.models.retrieve(CANDIDATE).id == CANDIDATE
    with pytest.raises(openai.NotFoundError, match="no version is deployed as 'sums-9/base'"):
        client.chat.completions.create(model="sums-9/base", **FEW)
    with pytest.raises(openai.AuthenticationError, match="valid key") as unknown:
        place.client("pawl_no_such_key").chat.completions.create(model=CANDIDATE, **FEW)
    assert unknown.value.code == "unauthorized"
    with pytest.raises(openai.BadRequestError, match="n: only 1 can be done here") as refused:
        client.chat.completions.create(model=CANDIDATE, n=2, **FEW)
    assert refused.value.body["code"] == "invalid_request"
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=CANDIDATE, **FEW | {"max_tokens": 100_000})
    assert refused.value.code == "context_length_exceeded"


def test_whoever_leaves_ends_the_answer(place: Place, base: ModelRef) -> None:
    asked = FEW | {"max_tokens": 2000, "messages": [{"role": "user", "content": "Count to 900."}]}
    stream = place.client().chat.completions.create(model=base.base, stream=True, **asked)
    next(iter(stream))
    stream.close()
    broken = select(EndpointUse).where(EndpointUse.status == "broken")
    (used,) = place.server.wait_for(broken, 60)
    assert used.calls == 1 and used.tokens_out < 1000 and used.tokens_in > 8

    path, body = "/chat/completions", {"model": base.base, **asked}
    with pytest.raises(httpx.ReadTimeout):
        place.rest("POST", path, body, timeout=0.5)
    eventually(lambda: sum(one.calls for one in place.server.read(broken)) == 2, 60)


def test_the_published_client_deploys_generates_pauses_and_wakes(
    place: Place, tmp_path: Path
) -> None:
    """The same request again is the same job; a deployed checkpoint stays on disk."""
    el = install()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ENVLOOP_HOME": str(tmp_path / "el")}
    env |= {"ENVLOOP_BASE_URL": place.server.url, "ENVLOOP_API_KEY": place.key}
    before = place.job(CANDIDATE)["job_id"]
    place.rest("POST", f"/job/{before}/stop")

    def run(*command: str) -> Any:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    spec = {"name": "sums", "inputs": {"checkpoint": f"envloop://{RUN}-r1/{place.checkpoint}"}}
    file = tmp_path / "deploy.json"
    file.write_text(json.dumps({"request_id": "rq-1", "spec": spec}))
    job = run(str(el), "job", "submit", "--type", "inference", "--file", str(file))["job_id"]
    assert job != before
    assert (
        run(str(el), "job", "submit", "--type", "inference", "--file", str(file))["job_id"] == job
    )
    code = (
        "import json, sys; from envloop import Client; found = Client.remote().endpoints.generate("
        "'sums', 'Hi', job_id=sys.argv[1], max_tokens=2); print(json.dumps(found))"
    )
    answer = run(str(el.with_name("python")), "-c", code, job)
    assert answer["usage"]["completion_tokens"] == 2 and answer["model"] == CANDIDATE

    assert run(str(el), "job", "pause", job)["inference"]["state"] == "paused"
    path = f"/job/{job}/Inference/chat/completions"
    status, told = place.rest("POST", path, FEW)
    assert (status, told["code"]) == (503, "ENDPOINT_NOT_READY") and "resume" in told["message"]
    assert run(str(el), "job", "resume", job)["inference"]["state"] in ("asleep", "ready")
    assert run(str(el), "job", "wake", job)["inference"]["state"] in ("waking", "ready")
    assert place.wait(CANDIDATE, "ready")["job_id"] == job
    held = place.rest("DELETE", f"/job/checkpoints/{place.checkpoint}")
    assert held[0] == 409 and "deployed" in held[1]["message"]


def test_one_command_deploys_a_version_and_says_how_to_call_it(place: Place) -> None:
    def deploy(version: str) -> tuple[int, str]:
        command = [sys.executable, str(ROOT / "run.py"), "deploy", version]
        env = environment_for(place.home)
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout + done.stderr

    code, said = deploy(f"{RUN}/base")
    assert code == 0 and f"base_url {place.server.url}/v1, model {RUN}/base" in said
    answer = place.client().chat.completions.create(model=f"{RUN}/base", **FEW | {"max_tokens": 1})
    assert answer.model == f"{RUN}/base"
    code, said = deploy("sums-9/candidate-1")
    assert code == 1 and "there is no checkpoint sums-9/candidate-1" in said


@pytest.mark.parametrize(
    ("spec", "status", "code"),
    [
        ({"version": "sums-1/candidate-9"}, 404, "CHECKPOINT_NOT_FOUND"),
        ({"model": "no-such-base"}, 404, "MODEL_NOT_FOUND"),
        ({"version": "sums-1/candidate-2"}, 409, "UNSUPPORTED_CAPABILITY"),
        ({"model": "sim/student"}, 409, "UNSUPPORTED_CAPABILITY"),
        ({"version": CANDIDATE}, 409, "RESOURCE_IN_USE"),
        ({"version": CANDIDATE, "model": "x"}, 422, "INVALID_REQUEST"),
        ({"version": CANDIDATE, "runner": "a/b@1"}, 422, "UNSUPPORTED_CAPABILITY"),
    ],
)
def test_what_cannot_be_deployed_is_refused_by_name(
    place: Place, spec: dict[str, Any], status: int, code: str
) -> None:
    found, told = place.deploy(**spec)
    assert (found, told["code"]) == (status, code)


def test_a_request_id_with_another_body_is_a_conflict(place: Place) -> None:
    body = {"type": "inference", "request_id": "rq-1", "spec": {"model": "other"}}
    status, told = place.rest("POST", "/job", body)
    assert (status, told["code"]) == (409, "REQUEST_CONFLICT")


def test_after_a_restart_endpoints_sleep_and_one_start_answers_two_calls(
    place: Place, base: ModelRef
) -> None:
    """Then nobody calls: the process is gone, and its device time is on record."""
    began = select(Job).where(col(Job.status).in_(("queued", "starting")))
    eventually(lambda: not place.server.read(began))  # one that has not begun would be woken
    before = place.job(base.base)["inference"]["calls"]
    place.server.terminate()
    known = {child.id for child in place.server.read(select(Child))}
    restarted = now()
    place.server = Server(place.home, PAWL_ENDPOINT_IDLE_SECONDS=str(IDLE_SECONDS))
    asleep = place.job(base.base)["inference"]
    assert (asleep["state"], asleep["replicas"]) == ("asleep", 0) and place.server.children() == []

    answers: list[str | None] = []

    def call() -> None:
        answer = place.client().chat.completions.create(model=base.base, **FEW | {"max_tokens": 2})
        answers.append(answer.choices[0].message.content)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(120)
    assert len(answers) == 2 and len(set(answers)) == 1
    (process,) = {child.pid for child in place.server.read(select(Child)) if child.id not in known}

    place.wait(base.base, "asleep")
    eventually(lambda: not is_running(process))
    used = place.job(base.base)["inference"]
    assert used["calls"] == before + 2 and used["replicas"] == 0
    query = select(Lease).where(Lease.started_at > restarted, Lease.state == "ended")
    (lease,) = place.server.wait_for(query, 60)
    assert lease.purpose == f"serving {base.base}" and lease.active_ms > 0
