"""The REST door against its own documentation: Schemathesis calls every operation in this process."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import StopReason, events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder
from schemathesis.python.asgi import HOST, shutdown_lifespans
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app import guard
from app.access import Access
from app.administration import LOCAL_OWNER
from app.rate import Rate
from app.rest import late
from tests.instance import Instance, instance
from tests.server.process import SMALL

LONG = os.environ.get("PAWL_LONG") == "1"
EXAMPLES = 50 if LONG else 10  # of each operation, beside those that its fields' limits give
DOCUMENTATION = "/v1/openapi.json"
# What a chat may end with, and which versions there are, is more than a schema can say.
KNOWS_MORE = {
    "include-name": "POST /job",
    "checks": {"positive_data_acceptance": {"expected-statuses": ["201", "404", "409", "422"]}},
}


@dataclass(kw_only=True, slots=True, frozen=True)
class Door:
    """The guarded application, and headers with a Developer's key."""

    app: ASGIApp
    headers: dict[str, str]


@dataclass(kw_only=True, slots=True, frozen=True)
class Found:
    """What came of the calls: their statuses, and in words every check that failed."""

    statuses: Counter[int] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    succeeded: set[str] = field(default_factory=set)  # operations with an answer of 2xx
    faults: dict[str, str] = field(default_factory=dict)  # check and operation -> what is wrong

    def add(self, recorder: ScenarioRecorder) -> None:
        """Count the calls of one scenario and note what its checks say."""
        names = {id_: node.value.operation.label for id_, node in recorder.cases.items()}
        for id_, call in recorder.interactions.items():
            status = call.response.status_code if call.response else 0
            self.statuses[status] += 1
            self.operations.add(names[id_])
            if status // 100 == 2:
                self.succeeded.add(names[id_])
        for id_, checks in recorder.checks.items():
            for check in checks:
                if (told := check.failure_info) is not None:
                    words = f"{told.failure.title}: {told.failure.message}\n{told.code_sample}"
                    self.faults.setdefault(f"{check.name} {names[id_]}", words)

    def count(self, hundreds: int) -> int:
        """How many calls were answered with 2xx, 4xx, ..."""
        return sum(n for status, n in self.statuses.items() if status // 100 == hundreds)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """The REST door behind the guard, with runs that are over and one that waits."""
    with instance(tmp_path_factory.mktemp("home")) as pawl, pytest.MonkeyPatch.context() as patch:
        # A key may not make as many calls as this one does: every later answer would be 429.
        patch.setattr(guard, "Rate", lambda **_: Rate(burst=10**9, per_second=10**9))
        _fill(pawl)
        web = Starlette()
        late.mount(web, pawl.service)
        access = Access(pawl.store, pawl.home)
        _, key = access.keys.create(LOCAL_OWNER, name="s", role="developer", project="prj_local")
        app = guard.Guard(web, access=access, port=8710, allowed_hosts=(HOST,))
        yield Door(app=app, headers={"Authorization": f"Bearer {key}"})
        shutdown_lifespans()


@pytest.mark.timeout(3600 if LONG else 900)
def test_every_answer_is_as_the_documentation_says(door):
    found = explore(door, EXAMPLES)
    assert not found.faults, "\n\n".join(f"{name}\n{told}" for name, told in found.faults.items())
    assert found.count(5) == 0 and found.count(3) == 0
    # The rest are of things that no server has at first: data sets, trials, operations, endpoints.
    assert len(found.succeeded) >= 30 and len(found.operations) >= 50
    assert found.count(2) >= 300 and found.count(4) >= 1000, found.statuses


ME, RUN = "GET /me", "GET /agent-runs/rsi/runs/{run}"
ENVELOPE = {"error": {"code": "RSI_RUN_NOT_FOUND", "message": "no such run"}}
NO_JOBS = {"items": [], "next_cursor": None, "observed_at": "2026-01-01T00:00:00Z"}
WRONG: dict[str, tuple[str, Response]] = {
    "not_a_server_error GET /me": (ME, JSONResponse({"code": "X", "message": "x"}, 500)),
    "status_code_conformance GET /me": (ME, JSONResponse({}, 206)),
    "content_type_conformance GET /me": (ME, HTMLResponse("<p>you")),
    "response_schema_conformance GET /me": (ME, JSONResponse({"auth_method": "api_key"})),
    f"response_schema_conformance {RUN}": (RUN, JSONResponse(ENVELOPE, 404)),
    "negative_data_rejection GET /job": ("GET /job", JSONResponse(NO_JOBS)),
    "ignored_auth GET /me": (ME, JSONResponse({})),
}


@pytest.mark.parametrize("fault", WRONG)
def test_an_answer_that_is_not_as_documented_is_found(door, fault):
    operation, answer = WRONG[fault]

    async def spoiled(scope: Scope, receive: Receive, send: Send) -> None:
        real = scope["type"] != "http" or scope["path"] == DOCUMENTATION
        await (door.app if real else answer)(scope, receive, send)

    found = explore(Door(app=spoiled, headers=door.headers), 1, operation)
    assert fault in found.faults


def explore(door: Door, examples: int, operation: str | None = None) -> Found:
    """Call every operation, or one, in all phases of Schemathesis with all its checks."""
    config = SchemathesisConfig.from_dict(
        {
            "seed": 7,
            "headers": door.headers,
            "continue-on-failure": True,
            "suppress-health-check": ["too_slow"],  # says something of the machine, not of the door
            "generation": {"max-examples": examples, "database": "none"},
            "operations": [] if operation else [KNOWS_MORE],
        }
    )
    schema = schemathesis.openapi.from_asgi(
        DOCUMENTATION, door.app, config=config, headers=door.headers
    )
    if operation is not None:
        schema = schema.include(name=operation)
    found = Found()
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            found.add(event.recorder)
        elif isinstance(event, events.NonFatalError):
            found.faults[f"error {event.label}"] = repr(event.value)
        elif isinstance(event, events.FatalError):
            raise event.exception
        elif isinstance(event, events.EngineFinished):
            assert event.stop_reason is StopReason.COMPLETED
    return found


def _fill(pawl: Instance) -> None:
    pawl.start("sums-1", rounds=1, limits=SMALL)  # as the documentation's examples name it
    pawl.wait("sums-1", 300)
    pawl.start("dry-1", rounds=1, dry_run=True, limits=SMALL)
    pawl.wait("dry-1", 300)
    pawl.start("later-1", start_after="2099-01-01T00:00:00Z")
