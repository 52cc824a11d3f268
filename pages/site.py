"""Registers the console's pages: which path shows what."""

from typing import Any

from nicegui import ui
from starlette.requests import Request

from app.access import Access
from app.service import Service
from pages import look
from pages.frame import Visitor
from pages.run_page import run_page
from pages.runs import runs_page

# What ui.run needs so that the pages look as they should; Tailwind would only slow them down.
OPTIONS: dict[str, Any] = {
    "title": "Pawl",
    "favicon": look.LOGO,
    "dark": None,
    "language": "en-US",
    "tailwind": False,
}


def register(service: Service, access: Access) -> None:
    """Put every page of the console into the web application; called once, by run.py."""
    look.add_to_all_pages()

    def runs(request: Request) -> None:
        runs_page(Visitor.of(request), service, access, dict(request.query_params))

    async def run(request: Request, run: str) -> None:
        ui.page_title(f"{run} · Pawl")
        await run_page(Visitor.of(request), service, access, run, dict(request.query_params))

    ui.page("/", title="Model loops · Pawl")(runs)
    ui.page("/runs/{run}", title="Run · Pawl")(run)
