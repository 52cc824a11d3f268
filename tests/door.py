"""The REST door of an instance in this process, behind the real guard, as a client sees it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from httpx2 import Response
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.access import Access
from app.administration import LOCAL_OWNER
from app.guard import Guard
from app.rest import late
from tests.instance import Instance, instance

PORT = 8710
RUNS = "/v1/agent-runs/rsi/runs"
SMALL = {"diag_per_family": 4, "dev_n": 100, "collect_tasks": 120, "collect_k": 1, "blind_n": 100}
FIELDS = {"brief": "Learn sums.", "limits": {"max_model_cost_usd": 1}}


class Door:
    """Asks with one key; `pawl` is what stands behind the door."""

    def __init__(self, pawl: Instance, client: TestClient, key: str) -> None:
        self.pawl, self._client, self._key = pawl, client, key

    def ask(self, method: str, path: str, **more: Any) -> Response:
        """One request; `json` or `content` is its body, `headers` come on top of the key's."""
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        headers |= more.pop("headers", {})
        if "json" in more:  # as Python writes it, which may be half a character
            more["content"] = json.dumps(more.pop("json"))
        answer: Response = self._client.request(method, path, headers=headers, **more)
        return answer

    def get(self, path: str, **more: Any) -> Any:
        """The JSON of a GET that succeeds."""
        answer = self.ask("GET", path, **more)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def post(self, path: str, body: object = None, status: int = 200) -> Any:
        """The JSON of a POST that ends with `status`."""
        answer = self.ask("POST", path, json=body)
        assert answer.status_code == status, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def start(self, run: str, **fields: Any) -> Any:
        """Start a small simulated, seeded run; the receipt."""
        seeded = {"preset": "sim", "seed": 7, **FIELDS, **fields}
        seeded["limits"] = SMALL | seeded["limits"]
        if seeded.get("dry_run"):
            del seeded["preset"]
        return self.post(RUNS, {"run": run, **seeded}, 201)

    def refusal(self, method: str, path: str, **more: Any) -> tuple[int, str]:
        """Status and code of a request that is refused in the one envelope."""
        answer = self.ask(method, path, **more)
        body = answer.json()
        assert answer.status_code >= 400, f"{path}: {answer.status_code} {answer.text}"
        assert set(body) <= {"code", "message", "reason"} and body["message"], body
        assert len(answer.content) < 8192
        return answer.status_code, body["code"]

    def with_role(self, role: str, project: str = "prj_local") -> "Door":
        """The same door for a new key of a role and project."""
        access = Access(self.pawl.store, self.pawl.home)
        count = len(access.keys.visible(LOCAL_OWNER))
        _, key = access.keys.create(LOCAL_OWNER, name=f"{role}-{count}", role=role, project=project)
        return Door(self.pawl, self._client, key)


@contextmanager
def door(path: Path, **more: Any) -> Iterator[Door]:
    """The door of a fresh instance, opened with the owner's key; `more` is for its engine."""
    with instance(path, **more) as pawl:
        web = Starlette()
        late.mount(web, pawl.service)
        access = Access(pawl.store, pawl.home)
        guarded = Guard(web, access=access, port=PORT)
        with TestClient(
            guarded, base_url=f"http://127.0.0.1:{PORT}", raise_server_exceptions=False
        ) as client:
            yield Door(pawl, client, pawl.home.owner_key.read_text().strip())
