"""Deployed versions over REST in the words of OpenAI's API, for each job and for all of them at once.

Refusals have this server's envelope with OpenAI's `error` beside it, so that its clients raise what
they should. A caller who leaves a stream ends the generation.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.responses import Response

from app import job_shapes
from app.caller import Caller
from app.errors import CallRefused, ServiceError
from app.openai_words import in_both
from app.ports import Chunks
from app.rest.answers import refusals
from app.rest.asking import Asker, Reader, Served
from app.rest.bodies import Body, described
from app.rest.paths import Name
from app.service import Service

router = APIRouter(tags=["Deployed versions"])

JobId = Annotated[Name, Path(description="the inference job's id", examples=["endpoint-1"])]
Found = TypeVar("Found")
CALLERS = 128  # who may wait for an answer at once; others wait for their turn
answering = ThreadPoolExecutor(CALLERS, thread_name_prefix="answers")
# Those who wait for a turn must not hold up, nor keep alive, an answer that is under way.
streaming = ThreadPoolExecutor(CALLERS, thread_name_prefix="streams")

COMMON: dict[str, Any] = {
    "model": {"type": "string"},
    "max_tokens": {"type": "integer", "minimum": 1, "maximum": 64},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0.01, "maximum": 1},
    "seed": {"type": "integer", "minimum": 0, "maximum": 2**31},
    "stream": {"type": "boolean"},
}
MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "user", "assistant"]},
        "content": {"type": "string"},
    },
    "required": ["role", "content"],
}
CHAT = {
    "type": "object",
    "properties": {**COMMON, "messages": {"type": "array", "items": MESSAGE, "minItems": 1}},
    "required": ["model", "messages"],
}
COMPLETION = {
    "type": "object",
    "properties": {**COMMON, "prompt": {"type": "string", "minLength": 1}},
    "required": ["model", "prompt"],
}
CHAT_EXAMPLE = {
    "model": "sums-1/candidate-1",
    "messages": [{"role": "user", "content": "What is 17 + 25?"}],
}
COMPLETION_EXAMPLE = {"model": "sums-1/candidate-1", "prompt": "17 + 25 ="}
PLACES = ("/job/{job}/Inference", "/job/{job}/inference")


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documented answers of a call, whole or as a stream."""
    whole = {"application/json": {"schema": {"type": "object"}}}
    chunks = {"text/event-stream": {"schema": {"type": "string"}}}
    told = "the answer, or its chunks as server-sent events that end in [DONE]"
    return {**refusals(*statuses), 200: {"description": told, "content": {**whole, **chunks}}}


CALLED = answers(400, 404, 413)
CALLED_JOB = answers(400, 404, 409, 413)


@router.post("/chat/completions", responses=CALLED, openapi_extra=described(CHAT, CHAT_EXAMPLE))
async def chat(request: Request, service: Served, caller: Asker, body: Body) -> Response:
    """Chat with a deployed version, named as `model`; one that sleeps is woken first."""
    return await _answer(request, service, caller, "chat/completions", body)


@router.post(
    "/completions", responses=CALLED, openapi_extra=described(COMPLETION, COMPLETION_EXAMPLE)
)
async def completion(request: Request, service: Served, caller: Asker, body: Body) -> Response:
    """Continue a text with a deployed version, named as `model`."""
    return await _answer(request, service, caller, "completions", body)


@router.get("/models", responses=refusals())
def models(service: Served, caller: Reader) -> job_shapes.DeployedModels:
    """Every deployed version by the name that calls give as `model`."""
    return service.deployed_models(caller)


@router.get("/models/{model}", responses=refusals(404))
def model(
    service: Served,
    caller: Reader,
    model: Annotated[Name, Path(description="a name from the list, its slash encoded")],
) -> job_shapes.DeployedModel:
    """One deployed version."""
    return service.deployed_model(caller, model)


async def chat_of_job(
    request: Request, service: Served, caller: Asker, job: JobId, body: Body
) -> Response:
    """Chat with the version that a job deploys, whatever `model` says."""
    return await _answer(request, service, caller, "chat/completions", body, job)


async def completion_of_job(
    request: Request, service: Served, caller: Asker, job: JobId, body: Body
) -> Response:
    """Continue a text with the version that a job deploys, whatever `model` says."""
    return await _answer(request, service, caller, "completions", body, job)


def models_of_job(service: Served, caller: Reader, job: JobId) -> job_shapes.DeployedModels:
    """The one version that a job deploys, as a list."""
    return service.deployed_models(caller, job)


for place in PLACES:
    shown = place.endswith("Inference")
    extra = described(CHAT, CHAT_EXAMPLE)
    path = f"{place}/chat/completions"
    router.post(path, responses=CALLED_JOB, openapi_extra=extra, include_in_schema=shown)(
        chat_of_job
    )
    extra = described(COMPLETION, COMPLETION_EXAMPLE)
    path = f"{place}/completions"
    router.post(path, responses=CALLED_JOB, openapi_extra=extra, include_in_schema=shown)(
        completion_of_job
    )
    router.get(f"{place}/models", responses=refusals(404, 409), include_in_schema=shown)(
        models_of_job
    )


async def _answer(
    request: Request,
    service: Service,
    caller: Caller,
    route: str,
    body: dict[str, Any],
    job: str | None = None,
) -> Response:
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise CallRefused("stream: give true or false", "invalid_request")
    if stream:
        chunks = await _apart(answering, lambda: service.answer_stream(caller, route, body, job))
        return StreamingResponse(_events(chunks), media_type="text/event-stream")
    left = threading.Event()
    watch = asyncio.create_task(_watch(request, left))
    try:
        whole = await _apart(
            answering, lambda: service.answer(caller, route, body, job, left.is_set)
        )
    finally:
        watch.cancel()
    return JSONResponse(whole)


async def _watch(request: Request, left: threading.Event) -> None:
    """Note it when the caller has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    left.set()


async def _events(chunks: Chunks) -> AsyncIterator[bytes]:
    """Server-sent events; whoever leaves meanwhile ends the generation."""
    try:
        while (chunk := await _apart(streaming, lambda: next(chunks, None))) is not None:
            yield b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"
    except ServiceError as refusal:  # the status is sent already: the stream has to tell it
        told = in_both("/v1/completions", refusal.status, refusal.body())
        yield b"data: " + json.dumps(told).encode() + b"\n\n"
    finally:
        streaming.submit(chunks.close)  # it may wait for a chunk under way; nobody waits for it


async def _apart(threads: ThreadPoolExecutor, call: Callable[[], Found]) -> Found:
    """Call it in a thread of its own, since the caller may wait long."""
    return await asyncio.get_running_loop().run_in_executor(threads, call)
