"""The wire itself: both prefixes, encoded slashes, refusals in one form, documentation that holds."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.arrival import LARGEST_BODY
from app.service import Service
from tests.door import FIELDS, RUNS, Door, door


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("wire")) as opened:
        opened.start("r", start_after="2099-01-01T00:00:00Z")
        yield opened


@pytest.mark.parametrize("path", ["/me", "/job", "/agent-runs/rsi/runs", "/agent-runs/rsi/runs/r"])
def test_both_prefixes_and_a_slash_at_the_end_answer_alike(doors: Door, path: str) -> None:
    answers = [doors.get(f"{prefix}{path}") for prefix in ("/v1", "/api/v1")]
    answers.append(doors.get(f"/v1{path}/"))
    for answer in answers:
        answer.pop("observed_at", None)
    assert answers[0] == answers[1] == answers[2]


UNKNOWN = ["/v1", "/v1/", "/api/v1", "/v1/nope", "/api/v1/no/such/thing", "/v1/job/a/b/c"]
UNKNOWN += ["/v1/%00", "/v1/%0A", "/v1/me%2F", "/v1/sessions", "/v1/%FF"]


@pytest.mark.parametrize("path", UNKNOWN)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_path_is_a_404_in_json_and_never_a_redirect(
    doors: Door, path: str, method: str
) -> None:
    answer = doors.ask(method, path, content="{}", follow_redirects=False)
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


def test_without_a_key_an_unknown_path_is_401_like_any_other(doors: Door) -> None:
    for path in ("/v1/nope", "/v1/me", RUNS, "/v1/openapi.json"):
        refused = doors.refusal("GET", path, headers={"Authorization": "Bearer no-such-key"})
        assert refused == (401, "UNAUTHORIZED")


def test_a_method_that_a_path_does_not_have_is_405_with_those_it_has(doors: Door) -> None:
    allowed = {"/v1/job": "GET, POST", RUNS: "GET, POST", "/v1/me": "GET", f"{RUNS}/r/live": "GET"}
    for path, methods in allowed.items():
        answer = doors.ask("PUT", path, content="{}")
        assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
        assert answer.headers["allow"] == methods
        assert answer.json()["message"] == f"PUT does nothing here; there is {methods}"


def test_a_foreign_cursor_is_refused_with_what_to_do(doors: Door) -> None:
    for path in (RUNS, "/v1/job", "/v1/job/checkpoints", "/v1/billing/ledger", "/v1/datasets"):
        told = doors.ask("GET", f"{path}?cursor=x").json()["message"]
        assert told == "cursor: not one that this server gave out; begin without one"


@pytest.mark.parametrize(
    "name", ["a%2Fb", "..%2F..", "%2F", "a%252Fb", "a%20b%2Fc%25", "%E2%82%AC", "a%00b", "x" * 3000]
)
def test_an_encoded_slash_belongs_to_the_name(doors: Door, name: str) -> None:
    assert doors.refusal("GET", f"{RUNS}/{name}") == (404, "RSI_RUN_NOT_FOUND")
    assert doors.refusal("POST", f"{RUNS}/{name}/steer", json={}) == (404, "RSI_RUN_NOT_FOUND")
    assert doors.refusal("GET", f"/v1/job/{name}/logs") == (404, "JOB_NOT_FOUND")


def test_a_name_is_read_as_it_was_meant(doors: Door) -> None:
    for sent, meant in {"a%2Fb": "a/b", "a%252Fb": "a%2Fb", "%72": None}.items():
        answer = doors.ask("GET", f"{RUNS}/{sent}")
        if meant is None:
            assert answer.json()["run"] == "r"
        else:
            assert answer.json()["message"].startswith(f"there is no run {meant};")


BROKEN = {
    "broken JSON": b"{broken",
    "a list": b"[]",
    "a text": b'"run"',
    "null": b"null",
    "no UTF-8": b"\xff\xfe",
    "a deep nest": b"[" * 50_000,
    "a number without end": b'{"rounds": ' + b"9" * 5000 + b"}",
    "no number": b'{"rounds": NaN}',
    "nothing": b"",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_body_that_is_no_json_object_is_refused_by_the_route(doors: Door, body: bytes) -> None:
    assert doors.refusal("POST", RUNS, content=body) == (422, "INVALID_RSI_REQUEST")


def test_a_body_beyond_the_limit_is_refused_before_it_is_read_whole(doors: Door) -> None:
    body = b'{"run": "' + b"x" * LARGEST_BODY + b'"}'
    assert doors.refusal("POST", RUNS, content=body) == (413, "REQUEST_TOO_LARGE")
    assert doors.refusal("POST", f"{RUNS}/nobody/steer", content=body)[0] == 404


def test_a_message_is_clipped_whatever_was_sent(doors: Door) -> None:
    answer = doors.ask("POST", RUNS, json={"run": "x", **FIELDS, "domain": "d" * 100_000})
    assert answer.status_code == 422 and len(answer.json()["message"]) <= 1000
    assert len(answer.content) < 8192
    wide = doors.ask("POST", RUNS, json={"run": "x", **FIELDS, "domain": "🦀" * 10_000})
    assert wide.json()["code"] == "INVALID_RSI_REQUEST" and len(wide.content) < 8192


def test_the_content_type_of_a_key_is_of_no_matter(doors: Door) -> None:
    for kind in ("text/plain", "application/json; charset=utf-8", ""):
        answer = doors.ask(
            "POST", f"{RUNS}/r/steer", content='{"text": "x"}', headers={"Content-Type": kind}
        )
        assert answer.status_code == 202


def test_a_fault_of_ours_tells_nothing_of_the_inside(
    doors: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(Service, "me", broken)
    answer = doors.ask("GET", "/v1/me")
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL_SERVER_ERROR")
    assert "secret" not in answer.text and "Traceback" not in answer.text


def test_too_many_requests_wait_and_the_live_view_never_does(doors: Door) -> None:
    viewer = doors.with_role("viewer")
    refused, answered = viewer.ask("GET", "/v1/me"), 0
    while refused.status_code == 200 and answered < 2000:  # on a slow machine some room comes back
        refused, answered = viewer.ask("GET", "/v1/me"), answered + 1
    assert refused.status_code == 429 and answered >= 100
    assert refused.json()["code"] == "RATE_LIMITED" and int(refused.headers["retry-after"]) >= 1
    assert all(viewer.ask("GET", f"{RUNS}/r/live").status_code == 200 for _ in range(30))


# The documentation


@pytest.fixture(scope="module")
def documented(doors: Door) -> dict[str, Any]:
    found: dict[str, Any] = doors.get("/v1/openapi.json")
    return found


def operations(documented: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in documented["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_says_what_it_is_and_how_it_is_refused(documented: dict[str, Any]) -> None:
    assert documented["servers"] == [{"url": "/v1"}]
    for name, operation in operations(documented):
        assert operation["description"] and operation["security"], name
        assert operation["responses"].keys() >= {"401", "403", "422", "429"}, name
        for status, response in operation["responses"].items():
            schema = response["content"]["application/json"]["schema"]
            if int(status) >= 400:
                assert schema == {"$ref": "#/components/schemas/Refusal"}, name
        for parameter in operation.get("parameters", []):
            assert parameter["in"] != "path" or f"{{{parameter['name']}}}" in name


def test_the_start_names_the_models_that_are_here(documented: dict[str, Any]) -> None:
    body = documented["paths"]["/agent-runs/rsi/runs"]["post"]["requestBody"]
    described = body["content"]["application/json"]
    fields = described["schema"]["properties"]
    assert fields["teacher_model"]["enum"] == ["sim/operator", "sim/student", "sim/teacher", None]
    assert "SmolLM2-135M-Instruct" in fields["base_model"]["enum"]
    assert fields["limits"]["properties"].keys() >= {"max_model_cost_usd", "model_usd_cap"}
    assert all(field["description"] for field in fields.values())


def test_the_documented_example_of_a_start_works(doors: Door, documented: dict[str, Any]) -> None:
    body = documented["paths"]["/agent-runs/rsi/runs"]["post"]["requestBody"]
    example = body["content"]["application/json"]["example"]
    doors.post(RUNS, example | {"start_after": "2099-01-01T00:00:00Z"}, 201)


def test_the_documentation_is_for_those_with_a_key(doors: Door) -> None:
    refused = doors.refusal("GET", "/v1/openapi.json", headers={"Authorization": ""})
    assert refused == (401, "UNAUTHORIZED")
