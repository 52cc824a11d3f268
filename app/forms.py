"""Plain HTML forms over HTTP: what was sent, and the answer that shows one."""

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse

FORM_BYTES = 8192


async def fields_of(request: Request) -> dict[str, str]:
    """The fields of a form of at most 8 KiB; of a longer one, none."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"))
    return {name: values[-1] for name, values in fields.items()}


def form_answer(html: str, status: int = 200) -> HTMLResponse:
    """A page with a form, which no cache keeps."""
    answer = HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-store"})
    # Under no-referrer the browser would send the form with "Origin: null".
    answer.headers["Referrer-Policy"] = "same-origin"
    return answer
