"""The page on which a signed-in person answers a command line that asks for a key."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from app.access import Access
from app.caller import Caller
from app.cli_grants import Asked
from app.errors import ServiceError
from app.forms import fields_of, form_answer


class CliPage(Protocol):
    """Draws the page as HTML; without `asked` there is nothing to answer and `error` says why."""

    def __call__(
        self,
        *,
        asked: Asked | None,
        caller: Caller,
        projects: dict[str, str],
        error: str | None,
        theme: str,
        base: str,
    ) -> str: ...


@dataclass(kw_only=True, slots=True, frozen=True)
class Approval:
    """Shows a grant to a person, and takes the answer."""

    access: Access
    page: CliPage

    async def show(
        self, request: Request, caller: Caller, grant_id: str, error: ServiceError | None = None
    ) -> Response:
        """The grant as it is now, with what was wrong about the last answer."""
        try:
            asked = await asyncio.to_thread(self.access.grants.look, grant_id)
        except ServiceError as missing:
            asked, error = None, missing
        html = self.page(
            asked=asked,
            caller=caller,
            projects=await asyncio.to_thread(self.access.keys.projects),
            error=str(error) if error else None,
            theme=request.cookies.get("pawl_theme", "auto"),
            base=request.state.base,
        )
        return form_answer(html, error.status if error else 200)

    async def answer(self, request: Request) -> Response:
        """The form was sent; the guard has seen that it is this site's own and who sends it."""
        fields = await fields_of(request)
        caller: Caller = request.state.caller
        grant_id = fields.get("cli_login", "")
        refusal = None
        try:
            await asyncio.to_thread(self._carry_out, caller, grant_id, fields)
        except ServiceError as error:
            refusal = error
        return await self.show(request, caller, grant_id, refusal)

    def _carry_out(self, caller: Caller, grant_id: str, fields: dict[str, str]) -> None:
        if fields.get("answer") == "approve":
            code, project = fields.get("code", ""), fields.get("project", "")
            self.access.grants.approve(caller, grant_id, code=code, project=project)
        else:
            self.access.grants.deny(caller, grant_id)
