"""Registers the console's pages: which path shows what, and which capability it needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from nicegui import ui
from starlette.requests import Request

from app.access import Access
from app.caller import READ
from app.service import Service
from pages import look
from pages.frame import Visitor, frame
from pages.parts import box, text, trouble
from pages.runs import runs_page

# What ui.run needs so that the pages look as they should; Tailwind would only slow them down.
OPTIONS: dict[str, Any] = {
    "title": "Pawl",
    "favicon": look.LOGO,
    "dark": None,
    "language": "en-US",
    "tailwind": False,
}


# Read when they are first opened, or once the first page has been served, whichever comes first.
LATER = (
    *("run_page", "start_page", "jobs", "job_page", "train_page", "checkpoints", "inference"),
    *("chat", "settings_keys", "settings_people", "settings_connect", "settings_account"),
)

# What a page reads may take so long while the machine is busy. After 60 s NiceGUI drops it, unless a
# browser has connected.
BUILD_SECONDS = 30.0


@dataclass(kw_only=True, slots=True, frozen=True)
class Doors:
    """What pages are built over."""

    service: Service
    access: Access


Build = Callable[[Visitor, Doors, Request], Awaitable[None]]


@dataclass(kw_only=True, slots=True, frozen=True)
class Page:
    """A page of the console; whoever lacks the capability `needs` is told so instead."""

    title: str
    needs: str
    build: Build


def register(service: Service, access: Access) -> None:
    """Put every page of the console into the web application; called once."""
    look.add_to_all_pages()
    doors = Doors(service=service, access=access)
    for path, page in PAGES.items():
        at_path = ui.page(path, title=f"{page.title} · Pawl", response_timeout=BUILD_SECONDS)
        at_path(_shown(page, doors))


def load_the_rest() -> None:
    """Read the modules of all other pages, so that nobody waits for them."""
    for name in LATER:
        import_module(f"pages.{name}")


def _shown(page: Page, doors: Doors) -> Callable[[Request], Awaitable[None]]:
    async def show(request: Request) -> None:
        visitor = Visitor.of(request)
        if page.needs in visitor.caller.capabilities:
            await page.build(visitor, doors, request)
        else:
            _refuse(page, visitor, doors)

    return show


def _refuse(page: Page, visitor: Visitor, doors: Doors) -> None:
    ui.status_code(403)
    project = doors.access.project_name(visitor.caller.project_id)
    with frame(visitor, doors.service, project):
        with box("pw-head pw-head-plain", "header"):
            text(page.title, "pw-h1", "h1")
        with box("pw-page"):
            trouble(f"{visitor.caller.actor} lacks the capability {page.needs}; ask an admin.")


async def _runs(visitor: Visitor, doors: Doors, request: Request) -> None:
    runs_page(visitor, doors.service, doors.access, dict(request.query_params))


async def _run(visitor: Visitor, doors: Doors, request: Request) -> None:
    from pages.run_page import run_page

    run = request.path_params["run"]
    ui.page_title(f"{run} · Pawl")
    await run_page(visitor, doors.service, doors.access, run, dict(request.query_params))


async def _start(visitor: Visitor, doors: Doors, request: Request) -> None:
    from pages.start_page import start_page

    query = dict(request.query_params)
    await start_page(visitor, doors.service, doors.access, query, _url(request))


async def _jobs(visitor: Visitor, doors: Doors, request: Request) -> None:
    from pages.jobs import jobs_page

    jobs_page(visitor, doors.service, doors.access, dict(request.query_params))


async def _job(visitor: Visitor, doors: Doors, request: Request) -> None:
    from pages.job_page import job_page

    job = request.path_params["job"]
    ui.page_title(f"{job} · Pawl")
    await job_page(visitor, doors.service, doors.access, job, dict(request.query_params))


async def _train(visitor: Visitor, doors: Doors, request: Request) -> None:
    from pages.train_page import train_page

    await train_page(visitor, doors.service, doors.access, _url(request))


async def _checkpoints(visitor: Visitor, doors: Doors, request: Request) -> None:
    from pages.checkpoints import checkpoints_page

    checkpoints_page(visitor, doors.service, doors.access, dict(request.query_params))


async def _inference(visitor: Visitor, doors: Doors, request: Request) -> None:
    from pages.inference import inference_page

    await inference_page(visitor, doors.service, doors.access, _url(request))


async def _chat(visitor: Visitor, doors: Doors, request: Request) -> None:
    from pages.chat import chat_page

    job = request.path_params["job"]
    await chat_page(visitor, doors.service, doors.access, job, _url(request))


async def _keys(visitor: Visitor, doors: Doors, _request: Request) -> None:
    from pages.settings_keys import keys_page

    keys_page(visitor, doors.service, doors.access)


async def _people(visitor: Visitor, doors: Doors, _request: Request) -> None:
    from pages.settings_people import people_page

    people_page(visitor, doors.service, doors.access)


async def _connect(visitor: Visitor, doors: Doors, request: Request) -> None:
    from pages.settings_connect import connect_page

    connect_page(visitor, doors.service, doors.access, _url(request))


async def _account(visitor: Visitor, doors: Doors, _request: Request) -> None:
    from pages.settings_account import account_page

    account_page(visitor, doors.service, doors.access)


def _url(request: Request) -> str:
    """How the visitor reaches this server."""
    return f"{request.url.scheme}://{request.headers['host']}{request.state.base}"


PAGES: dict[str, Page] = {
    "/": Page(title="Model loops", needs=READ, build=_runs),
    "/runs/{run}": Page(title="Run", needs=READ, build=_run),
    "/start": Page(title="Start a run", needs="training.run", build=_start),
    "/jobs": Page(title="Jobs", needs=READ, build=_jobs),
    "/jobs/{job}": Page(title="Job", needs=READ, build=_job),
    "/train": Page(title="Train by hand", needs="training.run", build=_train),
    "/checkpoints": Page(title="Checkpoints", needs=READ, build=_checkpoints),
    "/inference": Page(title="Inference", needs=READ, build=_inference),
    "/inference/{job}": Page(title="Chat", needs=READ, build=_chat),
    "/settings/keys": Page(title="Keys", needs=READ, build=_keys),
    "/settings/people": Page(title="People", needs="admin", build=_people),
    "/settings/connect": Page(title="Connect", needs=READ, build=_connect),
    "/settings/account": Page(title="Your account", needs=READ, build=_account),
}
