"""Money over REST: what the project has spent, on what, and what models cost."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from app import project_shapes as shapes
from app.rest.answers import refusals
from app.rest.asking import Counted, Limit, Reader, Served

router = APIRouter(prefix="/billing", tags=["Billing"])

Moment = Annotated[
    str, Query(json_schema_extra={"format": "date-time"}, examples=["2026-01-01T00:00:00Z"])
]


@router.get("/account", responses=refusals())
def account(service: Served, caller: Reader) -> shapes.BillingAccount:
    """What the project has spent beside its cap."""
    return service.billing_account(caller)


@router.get("/usage", responses=refusals())
def usage(
    service: Served,
    caller: Reader,
    start: Moment,
    end: Moment,
    group_by: Literal["day", "product", "endpoint", "sku"] = "day",
) -> shapes.UsagePage:
    """Money and device time from `start` up to `end`."""
    return service.billing_usage(caller, start, end, group_by)


@router.get("/ledger", responses=refusals())
def ledger(
    service: Served, caller: Reader, limit: Limit = 25, cursor: Counted = None
) -> shapes.LedgerPage:
    """Every change of the project's account, newest first."""
    return service.billing_ledger(caller, limit, cursor)


@router.get("/prices", responses=refusals())
def prices(service: Served, caller: Reader) -> shapes.PricePage:
    """What the models behind the gateway cost."""
    return service.billing_prices(caller)
