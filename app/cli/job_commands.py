"""`el job`: submits, lists and shows jobs, reads a log, stops one, and pauses and wakes endpoints."""

import json
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from app.cli.door import get, part, post
from app.cli.follow import POLL_SECONDS, Pages, follow_log
from app.cli.options import content
from app.cli.show import exit_code, moment, plain, print_json, print_table

ENDED = frozenset({"completed", "failed", "cancelled"})
Id = Annotated[str, typer.Argument(metavar="ID", help="the job's id")]
AsJson = Annotated[bool, typer.Option("--json", help="the whole answer as JSON")]


def list_jobs(
    type_: Annotated[
        str | None, typer.Option("--type", metavar="T", help="agent, sandbox, train or inference")
    ] = None,
    status: Annotated[str | None, typer.Option(metavar="S", help="only those with it")] = None,
    cursor: Annotated[str | None, typer.Option(metavar="C", help="the page after this")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="items of a page")] = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    page = get("/job", type=type_, status=status, cursor=cursor, limit=limit)
    if as_json:
        print_json(page)
        return
    head = ("JOB ID", "TYPE", "MODEL", "STATUS", "CREATED AT", "ENDED AT")
    print_table(head, [_line(job) for job in page["items"]])
    if page.get("next_cursor"):
        print(f"\nThere is more: --cursor {plain(page['next_cursor'])}")


def get_job(job: Id) -> None:
    """Show one job as JSON; a failed one exits with 1."""
    _print(get(f"/job/{part(job)}"))


def result(job: Id) -> None:
    """Show what a job came to, as JSON."""
    _print(get(f"/job/{part(job)}/result"))


def submit(
    file: Annotated[
        str,
        typer.Option(metavar="PATH", help="the request as JSON, a spec or trials; - for stdin"),
    ],
    type_: Annotated[str, typer.Option("--type", metavar="T", help="train or inference")] = "train",
    wait: Annotated[bool, typer.Option("--wait", help="until the training has ended")] = False,
) -> None:
    """Train on rows without a loop, or deploy a version; a failed training exits with 1."""
    body = _request(file) | {"type": type_}
    if type_ == "train":
        _check_training(body)
    answer = post("/job", body)
    while wait and type_ == "train" and answer["status"] not in ENDED:
        time.sleep(POLL_SECONDS)
        answer = get(f"/job/{part(answer['job_id'])}")
    _print(answer)


def stop(job: Id) -> None:
    """Stop a job."""
    _print(post(f"/job/{part(job)}/stop"))


def pause(job: Id) -> None:
    """Pause a deployed version: calls are refused and its memory is free."""
    _print(post(f"/job/{part(job)}/pause", {}))


def resume(job: Id) -> None:
    """Let a paused version be called again."""
    _print(post(f"/job/{part(job)}/resume", {}))


def wake(job: Id) -> None:
    """Have a deployed version ready before it is called."""
    _print(post(f"/job/{part(job)}/wake", {}))


def log(
    job: Id,
    source: Annotated[str | None, typer.Option(help="all, system or runtime")] = None,
    tail: Annotated[int | None, typer.Option(metavar="N", help="begin with the last N")] = None,
    cursor: Annotated[str | None, typer.Option(metavar="C", help="begin after this")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="lines of a page")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="until nothing can follow")] = False,
    as_json: AsJson = False,
) -> None:
    """Read a job's log; Ctrl-C ends --follow and leaves the job alone."""
    if tail is not None and cursor is not None:
        raise typer.BadParameter("give either --tail or --cursor")
    show = print_json if as_json else _print_lines
    with Pages(f"/job/{part(job)}/logs", "cursor", source=source, limit=limit) as read:
        if follow:
            follow_log(read, cursor, show, tail=tail)
        else:
            show(read(cursor, tail=tail))


COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_jobs,
    "get": get_job,
    "log": log,
    "result": result,
    "submit": submit,
    "stop": stop,
    "pause": pause,
    "resume": resume,
    "wake": wake,
}


def _request(file: str) -> dict[str, Any]:
    try:
        body = json.loads(content(file))
    except json.JSONDecodeError as wrong:
        _refuse_file(f"no JSON at line {wrong.lineno}, column {wrong.colno}: {wrong.msg}")
    if not isinstance(body, dict):
        _refuse_file('give a JSON object such as {"spec": {...}}')
    return body


def _refuse_file(why: str) -> NoReturn:
    print(f"FILE_ERROR: {why}", file=sys.stderr)
    raise typer.Exit(1) from None


def _check_training(body: dict[str, Any]) -> None:
    """Refuse here what the server would refuse: its message, which names the field, is not shown."""
    from app.errors import InvalidRequest
    from app.hand_jobs import checked_trainings

    models = {one["name"] for one in get("/job/training-models")["items"]}
    try:
        checked_trainings(body, models)
    except InvalidRequest as refused:
        print(f"{refused.code}: {plain(refused)}", file=sys.stderr)
        raise typer.Exit(1) from None


def _print(answer: Any) -> None:
    print_json(answer)
    raise typer.Exit(exit_code(answer))


def _print_lines(page: dict[str, Any]) -> None:
    for item in page["items"]:
        print(plain(item["content"]), flush=True)


def _line(job: dict[str, Any]) -> list[Any]:
    models = [
        (job.get("training") or {}).get("base_model"),
        (job.get("inference") or {}).get("model"),
    ]
    return [
        job.get("job_id"),
        job.get("type"),
        next((model for model in models if model), None),
        job.get("status"),
        moment(job.get("created_at")),
        moment(job.get("finished_at")),
    ]
