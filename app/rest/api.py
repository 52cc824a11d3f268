"""The REST door whole: its routers and its documentation."""

import copy
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute

from app.rest import answers, billing, catalog, completions, identity, jobs, loops
from app.rest.asking import Reader, Served
from app.service import Service
from app.train_schema import train_body

ABOUT = """Model loops, jobs and projects of one Pawl server.

Send a key as `Authorization: Bearer KEY`. Every path is served below `/v1` and `/api/v1` alike.
A refusal has a `code` for programs and a `message` for people.
"""
ROUTERS: tuple[APIRouter, ...] = (
    loops.router,
    completions.router,  # before jobs, whose {job} has no route below Inference
    jobs.router,
    identity.router,
    billing.router,
    catalog.router,
)
documentation = APIRouter(include_in_schema=False)


@documentation.get("/openapi.json")
def openapi(request: Request, service: Served, caller: Reader) -> dict[str, Any]:
    """What this door can do, for programs, with the models that a run can name here."""
    described: dict[str, Any] = copy.deepcopy(request.app.openapi())
    start = described["paths"][loops.router.prefix]["post"]["requestBody"]
    fields = start["content"]["application/json"]["schema"]["properties"]
    priced = [price.name for price in service.billing_prices(caller).items]
    for name in ("student_model", "operator_model", "teacher_model"):
        fields[name]["enum"] = [*priced, None]
    fields["base_model"]["enum"] = [one.name for one in service.training_models(caller).items]
    fields["base_model"]["enum"].append(None)
    trained = [one.name for one in service.training_models(caller).items]
    job = described["paths"][jobs.router.prefix]["post"]["requestBody"]
    job["content"]["application/json"]["schema"]["oneOf"][1] = train_body(trained)
    return described


def make_api(service: Service) -> FastAPI:
    """The application that answers below `/v1`; the guard in front of it has found the caller."""
    api = FastAPI(
        title="Pawl",
        version="1",
        description=ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        root_path_in_servers=False,
        servers=[{"url": "/v1"}],
    )
    api.state.service = service
    api.state.routes = routes()
    for router in (*ROUTERS, documentation):
        api.include_router(router)
    answers.register(api)
    return api


def routes() -> list[APIRoute]:
    """Every route of the door."""
    found = [route for router in (*ROUTERS, documentation) for route in router.routes]
    return [route for route in found if isinstance(route, APIRoute)]
