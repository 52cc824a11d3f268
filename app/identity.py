"""Who the caller is, the workspace and projects they may use, and who else is there."""

import re

from sqlmodel import Session, col, select

from app import project_shapes as shapes
from app.caller import READ, Caller
from app.errors import AccessDenied, HumanNeeded, NotFound, Unsupported
from app.start import queue_limit
from data.tables import Project, User

WORKSPACE_NAME = "Local"


def check_scope(caller: Caller, workspace: str | None, project: str | None) -> None:
    """AccessDenied when a request names another workspace or project than the caller's own."""
    if workspace is not None and workspace != caller.workspace_id:
        raise AccessDenied(f"workspace {workspace} is not one that you may use")
    if project is not None and project != caller.project_id:
        raise AccessDenied(f"project {project} is not one that you may use")


def me(session: Session, caller: Caller) -> shapes.Me:
    """Identity, scope and capabilities."""
    capabilities = {f"training.{READ}" if one == READ else one for one in caller.capabilities}
    return shapes.Me(
        auth_method="api_key" if caller.key_id is not None else "session",
        actor=caller.actor,
        workspace=_workspace(caller),
        project=_item(_own(session, caller)),
        workspace_id=caller.workspace_id,
        project_id=caller.project_id,
        capabilities=sorted(capabilities),
    )


def workspaces(session: Session, caller: Caller) -> shapes.WorkspacePage:
    """The caller's one workspace."""
    return shapes.WorkspacePage(items=[_workspace(caller)])


def projects(session: Session, caller: Caller, workspace: str) -> shapes.ProjectPage:
    """The projects of a workspace that the caller may use; a key has exactly one."""
    check_scope(caller, workspace, None)
    return shapes.ProjectPage(items=[_item(_own(session, caller))])


def project(session: Session, caller: Caller, workspace: str, project: str) -> shapes.ProjectDetail:
    """One project; a foreign one looks exactly like a missing one."""
    row = _named(session, caller, workspace, project)
    slug = re.sub("[^a-z0-9]+", "-", row.name.lower()).strip("-")
    item = _item(row)
    return shapes.ProjectDetail(**item.model_dump(), slug=slug, region="local", version=1)


def limits(session: Session, caller: Caller, workspace: str, project: str) -> shapes.ProjectLimits:
    """How much may run at once: live runs take turns on the one device."""
    _named(session, caller, workspace, project)
    return shapes.ProjectLimits(
        max_running_jobs=1, max_running_runs=1, max_waiting_runs=queue_limit(session)
    )


def members(session: Session, caller: Caller, workspace: str, project: str) -> shapes.MemberPage:
    """Everybody who can sign in; people have one role for all projects."""
    _named(session, caller, workspace, project)
    people = session.exec(select(User).order_by(col(User.name)))
    items = [
        shapes.Member(
            user=one.name,
            project_role=one.role,
            access_source="workspace",
            status="active",
            version=1,
        )
        for one in people
    ]
    return shapes.MemberPage(items=items)


def change_project(session: Session, caller: Caller, workspace: str, project: str) -> None:
    """Refused: keys never administer, and people do it on the settings page."""
    if caller.key_id is not None:
        raise HumanNeeded("a key cannot change projects or members: sign in to the console")
    caller.need("admin")
    _named(session, caller, workspace, project)
    raise Unsupported("change it on the console's settings page or with run.py on the machine")


def _named(session: Session, caller: Caller, workspace: str, project: str) -> Project:
    check_scope(caller, workspace, None)
    if project != caller.project_id:
        raise NotFound(f"there is no project {project}; see the list of projects")
    return _own(session, caller)


def _own(session: Session, caller: Caller) -> Project:
    row = session.get(Project, caller.project_id)
    return row or Project(
        id=caller.project_id, workspace_id=caller.workspace_id, name=caller.project_id
    )


def _item(row: Project) -> shapes.ProjectItem:
    return shapes.ProjectItem(project_id=row.id, workspace_id=row.workspace_id, name=row.name)


def _workspace(caller: Caller) -> shapes.Workspace:
    return shapes.Workspace(workspace_id=caller.workspace_id, name=WORKSPACE_NAME)
