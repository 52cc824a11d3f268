"""What routes say in their signature: who asks, with which capability, and for which page."""

from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.security import HTTPBearer

from app.caller import READ, Caller
from app.paging import CURSOR, MOST, NUMBER
from app.service import Service

DOCUMENTED = HTTPBearer(auto_error=False, description="a key of the project")


class Needs:
    """A dependency that gives the caller once they have `capability` in the scope they name."""

    def __init__(self, capability: str) -> None:
        self.capability = capability

    async def __call__(
        self, request: Request, _: Annotated[object, Depends(DOCUMENTED)] = None
    ) -> Caller:
        caller: Caller = request.state.caller  # the guard has found it
        scope = (request.headers.get(f"x-{word}-id") for word in ("workspace", "project"))
        the_service(request).check_scope(caller, *scope)
        caller.need(self.capability)
        return caller


def the_service(request: Request) -> Service:
    """The one service below all doors."""
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(the_service)]
Reader = Annotated[Caller, Depends(Needs(READ))]
Runner = Annotated[Caller, Depends(Needs("training.run"))]
Stopper = Annotated[Caller, Depends(Needs("training.stop"))]
Asker = Annotated[Caller, Depends(Needs("inference.use"))]
Deployer = Annotated[Caller, Depends(Needs("deploy"))]

Limit = Annotated[int, Query(ge=1, le=MOST, description="items in a page", examples=[25])]
Cursor = Annotated[
    str | None,
    Query(pattern=f"^{CURSOR.pattern}$", description="where the page begins: a next_cursor"),
]
Counted = Annotated[
    str | None,
    Query(pattern=f"^{NUMBER.pattern}$", description="where the page begins: a next_cursor"),
]
