"""What stands where an address leads nowhere: the same frame, a sentence, the way back."""

from collections.abc import Awaitable, Callable

from nicegui import Client, ui
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.access import Access
from app.arrival import API
from app.service import Service
from pages.frame import Visitor, frame
from pages.parts import box, icon, text

TITLE = "Nothing is here"


def nothing(message: str, why: str, back: tuple[str, str] = ("/", "All model loops")) -> None:
    """The body of such a page: what is not there, why that may be, and where there is more."""
    with box("pw-head pw-head-plain", "header"):
        text(TITLE, "pw-h1", "h1")
    with box("pw-page"), box("pw-card pw-nothing", "section"):
        text(message, "pw-strong pw-ink pw-break", "div")
        text(why, tag="div")
        with ui.link(target=back[0]).classes("pw-back"):
            icon("sym_o_arrow_back")
            text(back[1])


def nothing_here(
    service: Service, access: Access
) -> Callable[[Request, Exception], Awaitable[Response]]:
    """What answers a 404 of the web application: JSON for the API, else a page of the console."""

    async def answer(request: Request, _error: Exception) -> Response:
        path = request.url.path[:200]
        if API.match(path) or not hasattr(request.state, "caller"):
            refused = {"code": "NOT_FOUND", "message": f"there is no {path} here"}
            return JSONResponse(refused, status_code=404)
        visitor = Visitor.of(request)
        project = access.project_name(visitor.caller.project_id)
        page = ui.page("", title=f"{TITLE} · Pawl")
        with Client(page, request=request) as client, frame(visitor, service, project, ""):
            nothing(f"There is no page {path}.", "The address may be mistyped.")
        return client.build_response(request, 404)

    return answer
