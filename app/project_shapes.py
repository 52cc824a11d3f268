"""What the service returns about identities, projects, money and lists that are still empty."""

from typing import Any

from pydantic import BaseModel


class Workspace(BaseModel):
    workspace_id: str
    name: str


class WorkspacePage(BaseModel):
    items: list[Workspace]
    next_cursor: None = None


class ProjectItem(BaseModel):
    project_id: str
    workspace_id: str
    name: str


class ProjectPage(BaseModel):
    items: list[ProjectItem]
    next_cursor: None = None


class Me(BaseModel):
    """Who asks, and what they may do where."""

    auth_method: str  # api_key | session
    actor: str
    workspace: Workspace
    project: ProjectItem
    workspace_id: str
    project_id: str
    capabilities: list[str]


class ProjectDetail(ProjectItem):
    slug: str
    region: str
    version: int


class ProjectLimits(BaseModel):
    max_running_jobs: int
    max_running_runs: int
    max_waiting_runs: int


class Member(BaseModel):
    user: str
    project_role: str
    access_source: str
    status: str
    version: int


class MemberPage(BaseModel):
    items: list[Member]
    next_cursor: str | None = None


class BillingAccount(BaseModel):
    """Amounts in USD as strings; no balance where the project has no cap.

    `simulated_usd` is the part of what was spent that went to simulated models, so to nobody.
    """

    balance_usd: str | None
    spent_usd: str
    simulated_usd: str
    reserved_usd: str
    cap_usd: str | None


class UsagePage(BaseModel):
    """Each item has what it is grouped by, `amount_usd`, `simulated_usd` of it, `gpu_seconds`."""

    items: list[dict[str, str | float]]
    next_cursor: str | None = None


class LedgerItem(BaseModel):
    entry_id: str
    kind: str
    amount_usd: str
    reference: str | None
    occurred_at: str
    simulated: bool  # for a call to a simulated model


class LedgerPage(BaseModel):
    items: list[LedgerItem]
    next_cursor: str | None = None


class Price(BaseModel):
    """USD per million tokens."""

    name: str
    input_usd: str
    output_usd: str
    cached_usd: str | None
    simulated: bool


class PricePage(BaseModel):
    items: list[Price]
    next_cursor: str | None = None


class EmptyPage(BaseModel):
    """A list of things that this server does not have."""

    items: list[dict[str, Any]]
    next_cursor: str | None = None


class Operation(BaseModel):
    """Something that may take a while, and can be asked for meanwhile."""

    operation_id: str
    status: str  # RUNNING | SUCCEEDED
    project_id: str
    resources: list[dict[str, str]]
    errors: list[dict[str, str]]
