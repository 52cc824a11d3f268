"""Identity and projects over REST: who asks, where they may work, and who else does."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from app import project_shapes as shapes
from app.rest.answers import refusals
from app.rest.asking import Counted, Limit, Reader, Served
from app.rest.paths import Name

router = APIRouter(tags=["Identity and projects"])

WorkspaceId = Annotated[Name, Path(description="workspace id", examples=["ws_local"])]
ProjectId = Annotated[Name, Path(description="project id", examples=["prj_local"])]
PROJECT = "/workspaces/{workspace}/projects/{project}"


@router.get("/me", responses=refusals())
def me(service: Served, caller: Reader) -> shapes.Me:
    """Who asks, in which workspace and project, and what they may do there."""
    return service.me(caller)


@router.get("/workspaces", responses=refusals())
def workspaces(service: Served, caller: Reader) -> shapes.WorkspacePage:
    """The workspaces that the caller may use."""
    return service.workspaces(caller)


@router.get("/workspaces/{workspace}/projects", responses=refusals())
def projects(service: Served, caller: Reader, workspace: WorkspaceId) -> shapes.ProjectPage:
    """The projects of a workspace that the caller may use."""
    return service.projects(caller, workspace)


@router.get(PROJECT, responses=refusals(404))
def project(
    service: Served, caller: Reader, workspace: WorkspaceId, project: ProjectId
) -> shapes.ProjectDetail:
    """One project."""
    return service.project(caller, workspace, project)


@router.get(f"{PROJECT}/limits", responses=refusals(404))
def limits(
    service: Served, caller: Reader, workspace: WorkspaceId, project: ProjectId
) -> shapes.ProjectLimits:
    """How much may run at once."""
    return service.limits(caller, workspace, project)


@router.get(f"{PROJECT}/members", responses=refusals(404))
def members(
    service: Served, caller: Reader, workspace: WorkspaceId, project: ProjectId
) -> shapes.MemberPage:
    """Who belongs to the project."""
    return service.members(caller, workspace, project)


@router.get(f"{PROJECT}/member-candidates", responses=refusals(404))
def candidates(
    service: Served,
    caller: Reader,
    workspace: WorkspaceId,
    project: ProjectId,
    limit: Limit = 25,
    cursor: Counted = None,
    q: Annotated[str | None, Query(description="part of a name")] = None,
) -> shapes.EmptyPage:
    """Who could be added: nobody, since everybody belongs to every project already."""
    service.project(caller, workspace, project)
    return service.empty_list(caller, limit, cursor)


# People change projects and members in the console: at this door it is refused, to keys by name.


@router.patch(PROJECT, responses=refusals(404))
@router.post(f"{PROJECT}/archive", responses=refusals(404))
def change(service: Served, caller: Reader, workspace: WorkspaceId, project: ProjectId) -> None:
    """Refused: a signed-in administrator does it in the console."""
    service.change_project(caller, workspace, project)


@router.put(f"{PROJECT}/members/{{user}}", responses=refusals(404))
@router.delete(f"{PROJECT}/members/{{user}}", responses=refusals(404))
def change_member(
    service: Served, caller: Reader, workspace: WorkspaceId, project: ProjectId, user: Name
) -> None:
    """Refused: a signed-in administrator does it in the console."""
    service.change_project(caller, workspace, project)
