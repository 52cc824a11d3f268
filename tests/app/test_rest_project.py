"""Identity, projects, money and empty lists over REST, in the contract's own fields."""

from collections.abc import Iterator

import pytest

from data.tables import Account
from tests.door import Door, door

PROJECT = "/v1/workspaces/ws_local/projects/prj_local"


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("project")) as opened:
        opened.start("spent", dry_run=True, rounds=1)
        opened.pawl.wait("spent")
        yield opened


def test_me_repeats_the_scope_of_the_key(doors: Door) -> None:
    me = doors.get("/v1/me", headers={"X-WORKSPACE-ID": "ws_local", "x-project-id": "prj_local"})
    assert me["auth_method"] == "api_key"
    assert me["workspace"] == {"workspace_id": "ws_local", "name": "Local"}
    assert me["project"] == {
        "project_id": "prj_local",
        "workspace_id": "ws_local",
        "name": "Default",
    }
    assert (me["workspace_id"], me["project_id"]) == ("ws_local", "prj_local")
    assert {"training.read", "training.run", "training.stop"} <= set(me["capabilities"])
    assert doors.with_role("viewer").get("/v1/me")["capabilities"] == ["training.read"]


@pytest.mark.parametrize("name", ["X-Workspace-Id", "x-project-id"])
@pytest.mark.parametrize("path", ["/v1/me", "/v1/job", "/v1/agent-runs/rsi/runs"])
def test_a_foreign_scope_is_refused_everywhere(doors: Door, name: str, path: str) -> None:
    refused = doors.refusal("GET", path, headers={name: "other"})
    assert refused == (403, "ACCESS_DENIED")


def test_workspaces_and_projects_come_in_one_page(doors: Door) -> None:
    workspaces = doors.get("/v1/workspaces")
    assert workspaces == {
        "items": [{"workspace_id": "ws_local", "name": "Local"}],
        "next_cursor": None,
    }
    projects = doors.get("/v1/workspaces/ws_local/projects")
    assert [item["project_id"] for item in projects["items"]] == ["prj_local"]
    assert projects["next_cursor"] is None
    refused = doors.refusal("GET", "/v1/workspaces/ws_other/projects")
    assert refused == (403, "ACCESS_DENIED")


def test_a_project_tells_its_limits_and_members(doors: Door) -> None:
    project = doors.get(PROJECT)
    wanted = {"project_id", "workspace_id", "name", "slug", "region", "version"}
    assert project.keys() == wanted and project["version"] == 1
    assert doors.get(f"{PROJECT}/limits")["max_running_runs"] == 1
    member = doors.get(f"{PROJECT}/members")["items"][0]
    assert member == {
        "user": "owner",
        "project_role": "admin",
        "access_source": "workspace",
        "status": "active",
        "version": 1,
    }
    assert doors.get(f"{PROJECT}/member-candidates?q=a")["items"] == []
    for path in ("", "/limits", "/members", "/member-candidates"):
        refused = doors.refusal("GET", f"/v1/workspaces/ws_local/projects/prj_other{path}")
        assert refused == (404, "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", ""),
        ("POST", "/archive"),
        ("PUT", "/members/ann"),
        ("DELETE", "/members/ann"),
    ],
)
def test_keys_never_administer(doors: Door, method: str, path: str) -> None:
    refused = doors.refusal(method, PROJECT + path, headers={"If-Match": '"1"'})
    assert refused == (403, "HUMAN_SESSION_REQUIRED")


def test_the_account_has_its_amounts_as_exact_texts(doors: Door) -> None:
    account = doors.get("/v1/billing/account")
    assert account["balance_usd"] is None and float(account["spent_usd"]) > 0

    def with_cap(s: object) -> None:
        s.get_one(Account, "project:prj_local").total_cap = 10_000_000  # type: ignore[attr-defined]

    doors.pawl.store.write(with_cap)
    account = doors.get("/v1/billing/account")
    assert account["cap_usd"] == "10.00"
    assert float(account["balance_usd"]) == pytest.approx(10 - float(account["spent_usd"]))


def test_usage_adds_up_to_what_the_account_spent(doors: Door) -> None:
    spent = doors.get("/v1/billing/account")["spent_usd"]
    span = "start=2020-01-01T00:00:00Z&end=2099-01-01T00:00:00%2B01:00"
    for group in ("day", "product", "sku", "endpoint"):
        items = doors.get(f"/v1/billing/usage?{span}&group_by={group}")["items"]
        wanted = {group, "amount_usd", "simulated_usd", "gpu_seconds"}
        assert all(item.keys() == wanted for item in items)
        total = sum(float(item["amount_usd"]) for item in items)
        assert total == pytest.approx(float(spent)), group
    before = "start=2020-01-01T00:00:00Z&end=2020-01-02T00:00:00Z"
    assert doors.get(f"/v1/billing/usage?{before}")["items"] == []


@pytest.mark.parametrize("query", ["", "start=x&end=y", "start=2026-01-01&end=2026-01-02"])
def test_a_span_needs_two_moments_with_their_offset(doors: Door, query: str) -> None:
    refused = doors.refusal("GET", f"/v1/billing/usage?{query}")
    assert refused == (422, "INVALID_REQUEST")


def test_the_ledger_is_walked_newest_first(doors: Door) -> None:
    page = doors.get("/v1/billing/ledger?limit=2")
    entry = page["items"][0]
    wanted = {"entry_id", "kind", "amount_usd", "reference", "occurred_at", "simulated"}
    assert entry.keys() == wanted
    following = doors.get(f"/v1/billing/ledger?limit=2&cursor={page['next_cursor']}")
    ids = [int(item["entry_id"]) for item in [*page["items"], *following["items"]]]
    assert ids == sorted(ids, reverse=True) and len(set(ids)) == 4


def test_prices_are_those_of_the_gateway(doors: Door) -> None:
    prices = {item["name"]: item for item in doors.get("/v1/billing/prices")["items"]}
    assert prices["sim/student"]["input_usd"] == "0.10" and prices["sim/student"]["simulated"]


LISTS = ["datasets", "runners", "profiles", "trials", "serving/profiles", "adapters"]
MISSING = {
    "/v1/datasets/b3JnL2Rz": "DATASET_NOT_FOUND",
    "/v1/datasets/b3JnL2Rz/versions": "DATASET_NOT_FOUND",
    "/v1/datasets/b3JnL2Rz/versions/1/tasks": "DATASET_NOT_FOUND",
    "/v1/profiles/YQ/versions": "PROFILE_NOT_FOUND",
    "/v1/trials/none": "TRIAL_NOT_FOUND",
    "/v1/projects/prj_local/operations/op-1": "RESOURCE_NOT_FOUND",
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_what_is_not_here_are_empty(doors: Door, name: str) -> None:
    assert doors.get(f"/v1/{name}?limit=50&type=x&q=y") == {"items": [], "next_cursor": None}
    assert doors.refusal("GET", f"/v1/{name}?limit=0") == (422, "INVALID_LIMIT")


@pytest.mark.parametrize(("path", "code"), MISSING.items())
def test_things_that_are_not_here_are_not_found_by_kind(doors: Door, path: str, code: str) -> None:
    assert doors.refusal("GET", path) == (404, code)
