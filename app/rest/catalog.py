"""Lists over REST that this server has nothing for yet: they are empty, and their items missing."""

from typing import Annotated

from fastapi import APIRouter, Path

from app import job_shapes
from app import project_shapes as shapes
from app.rest.answers import refusals
from app.rest.asking import Counted, Deployer, Limit, Reader, Served
from app.rest.paths import Name

router = APIRouter(tags=["Data and the rest"])

Item = Annotated[Name, Path(description="name in base64url without padding, or id")]


@router.get("/datasets", responses=refusals())
@router.get("/runners", responses=refusals())
@router.get("/profiles", responses=refusals())
@router.get("/trials", responses=refusals())
@router.get("/serving/profiles", responses=refusals())
@router.get("/adapters", responses=refusals())
def empty(
    service: Served, caller: Reader, limit: Limit = 25, cursor: Counted = None
) -> shapes.EmptyPage:
    """An empty page."""
    return service.empty_list(caller, limit, cursor)


@router.get("/datasets/{name}", responses=refusals(404))
@router.get("/datasets/{name}/versions", responses=refusals(404))
def dataset(service: Served, caller: Reader, name: Item) -> shapes.EmptyPage:
    """No dataset is here."""
    return service.missing(caller, "dataset", name)


@router.get("/datasets/{name}/versions/{revision}", responses=refusals(404))
@router.get("/datasets/{name}/versions/{revision}/tasks", responses=refusals(404))
def dataset_version(
    service: Served, caller: Reader, name: Item, revision: Name
) -> shapes.EmptyPage:
    """No dataset is here."""
    return service.missing(caller, "dataset", name)


@router.get("/profiles/{name}/versions", responses=refusals(404))
@router.get("/profiles/{name}/detail", responses=refusals(404))
def profile(service: Served, caller: Reader, name: Item) -> shapes.EmptyPage:
    """No profile is here."""
    return service.missing(caller, "profile", name)


@router.get("/trials/{name}", responses=refusals(404))
def trial(service: Served, caller: Reader, name: Item) -> shapes.EmptyPage:
    """No trial is here."""
    return service.missing(caller, "trial", name)


@router.get("/projects/{project}/operations/{operation}", responses=refusals(404))
def operation(
    service: Served, caller: Reader, project: Name, operation: Name
) -> job_shapes.Deletion:
    """How far something is that takes a while: the removal of a checkpoint."""
    service.check_scope(caller, None, project)
    return service.operation(caller, operation)


@router.post("/projects/{project}/operations/{operation}/retry", responses=refusals(404))
def retry(service: Served, caller: Deployer, project: Name, operation: Name) -> shapes.EmptyPage:
    """No operation that failed is here: a removal that was cut off is finished by `clean`."""
    return service.missing(caller, "operation", operation)
