"""Model loops over REST: start, watch, steer and control runs."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query

from app import cost_shapes, shapes
from app.caps import CAPS_SCHEMA, ONE_SPELLING
from app.rest.answers import refusals
from app.rest.asking import Counted, Cursor, Limit, Reader, Runner, Served
from app.rest.bodies import Body, described
from app.rest.paths import Name
from app.start_fields import StartFields
from app.steering import LONGEST

router = APIRouter(prefix="/agent-runs/rsi/runs", tags=["Model loops"])

START = {"run": "sums-1", "brief": "Learn sums.", "limits": {"max_model_cost_usd": 5}}
TEXT = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": r"\S"}
    },
    "required": ["text"],
}
CONTROL = {
    "type": "object",
    "oneOf": [
        {
            "properties": {
                "action": {"enum": ["stop", "resume"]},
                "rounds": {"type": "null"},
                "limits": {"type": "null"},
            },
            "required": ["action"],
        },
        {
            "properties": {
                "action": {"const": "extend"},
                "rounds": {"type": "integer", "minimum": 1, "maximum": 1000},
                "limits": {
                    "type": ["object", "null"],
                    "properties": CAPS_SCHEMA,
                    "allOf": ONE_SPELLING,
                    "additionalProperties": False,
                },
            },
            "required": ["action", "rounds"],
        },
    ],
}

State = Literal["starting", "running", "paused", "finished", "failed", "stopped", "active"]


def visible_run(
    service: Served,
    caller: Reader,
    run: Annotated[Name, Path(description="the run's id", examples=["sums-1"])],
) -> str:
    """The run of the path, once the caller is known to see it."""
    service.see_run(caller, run)
    return run


VisibleRun = Annotated[str, Depends(visible_run)]


@router.post(
    "",
    status_code=201,
    responses=refusals(409, 413),
    openapi_extra=described(StartFields.model_json_schema(), START),
)
def start(service: Served, caller: Runner, body: Body) -> shapes.RunStarted:
    """Start a run. It is listed at once and worked on in the background.

    Where the machine is busy the run waits as `starting`, with the reason.
    """
    return service.start_run(caller, **body)


@router.get("", responses=refusals())
def list_runs(
    service: Served,
    caller: Reader,
    limit: Limit = 25,
    cursor: Cursor = None,
    state: Annotated[State | None, Query(description="`active`: starting or running")] = None,
    q: Annotated[str | None, Query(description="part of a run's id")] = None,
) -> shapes.RunPage:
    """The project's runs, newest first."""
    return service.list_runs(caller, limit=limit, cursor=cursor, state=state, q=q)


@router.get("/{run}", responses=refusals(404))
def detail(
    service: Served,
    caller: Reader,
    run: VisibleRun,
    compact: Annotated[bool, Query(description="only the summary: cheap to poll")] = False,
) -> shapes.RunDetail | shapes.RunCompact:
    """One run with its steps, scored versions, last gate, audits, rounds and directives."""
    return service.run_summary(caller, run) if compact else service.run_detail(caller, run)


@router.get("/{run}/rounds", responses=refusals(404))
def rounds(
    service: Served, caller: Reader, run: VisibleRun, limit: Limit = 25, cursor: Counted = None
) -> shapes.RoundPage:
    """The rounds of a run, first to last."""
    return service.list_rounds(caller, run, limit, cursor)


@router.get("/{run}/rounds/{number}", responses=refusals(404))
def round_(
    service: Served,
    caller: Reader,
    run: VisibleRun,
    number: Annotated[int, Path(ge=1, description="rounds are counted from 1", examples=[1])],
) -> shapes.RoundShape:
    """One round: its plan, what it changed, its audits and its decision."""
    return service.run_round(caller, run, number)


@router.get("/{run}/live", responses=refusals(404))
def live(
    service: Served,
    caller: Reader,
    run: VisibleRun,
    since: Annotated[int, Query(ge=0, description="the last event seen", examples=[0])] = 0,
) -> shapes.Live:
    """What a run does now, with at most 200 events after `since`, oldest first.

    `state` shows an end only on the page that has the last event; `run_state` tells it earlier.
    This route has no rate limit.
    """
    return service.run_live(caller, run, since)


@router.get("/{run}/cost", responses=refusals(404))
def cost(service: Served, caller: Reader, run: VisibleRun) -> cost_shapes.RunCost:
    """Where a run's money went, what is still open, and what the rest may cost.

    Money of simulated models is counted against the caps and paid to nobody.
    """
    return service.run_cost(caller, run)


@router.post(
    "/{run}/steer",
    status_code=202,
    responses=refusals(404, 409, 413),
    openapi_extra=described(TEXT, {"text": "Prefer held-out families."}),
)
def steer(service: Served, caller: Runner, run: VisibleRun, body: Body) -> shapes.SteerTicket:
    """Queue guidance for the run's next turn; the live view shows it delivered or dropped."""
    return service.steer(caller, run, body.get("text"))


@router.post(
    "/{run}/control",
    responses=refusals(404, 409, 413),
    openapi_extra=described(CONTROL, {"action": "stop"}),
)
def control(service: Served, caller: Runner, run: VisibleRun, body: Body) -> shapes.RunControl:
    """Stop, extend or resume a run; stopping needs `training.stop` as well.

    A working run stops after its round. `extend` sets the target rounds and may raise caps.
    """
    return service.control(caller, run, body.get("action"), body.get("rounds"), body.get("limits"))


@router.get("/{run}/directives", responses=refusals(404))
def directives(service: Served, caller: Reader, run: VisibleRun) -> shapes.DirectivePage:
    """The standing instructions of a run, oldest first."""
    return shapes.DirectivePage(items=service.directives(caller, run))


@router.post(
    "/{run}/directives",
    status_code=201,
    responses=refusals(404, 409, 413),
    openapi_extra=described(TEXT, {"text": "Never train on word problems."}),
)
def add_directive(
    service: Served, caller: Runner, run: VisibleRun, body: Body
) -> shapes.DirectiveShape:
    """Add a standing instruction for all later rounds."""
    return service.add_directive(caller, run, body.get("text"))
