"""Models behind the gateway by command, and their keys: used for calls, and found nowhere else."""

import gzip
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from app.admin import call_admin
from app.errors import ServiceError
from data.tables import Account, Child, Event, GatewayModel, ModelCall, Run
from engine.types import ModelRef
from tests.fake_provider import FakeProvider
from tests.server.process import SMALL, Server
from tests.server.test_administration import command, worked
from tests.worker.tiny_loop import lay_model

pytestmark = pytest.mark.timeout(600)

PRICES = ("--input-usd-per-mtok", "3", "--output-usd-per-mtok", "15")
CANARIES = {
    "MODEL_KEY": "CANARY-model-key",
    "OPENAI_API_KEY": "CANARY-openai",
    "OPENAI_ORG_ID": "CANARY-organization",
    "HF_TOKEN": "CANARY-hub",
    "AWS_SECRET_ACCESS_KEY": "CANARY-cloud",
}
PAGES = (
    *("", "/live", "/evaluations", "/rounds", "/audits", "/cost", "/directives"),
    *("/steers", "/events"),
)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as one:
        yield one


def add(provider: FakeProvider, *more: str, name: str = "m") -> tuple[str, ...]:
    return ("model", "add", name, "--base-url", provider.base_url, *PRICES, *more)


def test_a_model_is_added_tried_listed_and_removed_without_a_server(
    tmp_path: Path, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = command(tmp_path, *add(provider, "--key-env", "MODEL_KEY"))
    assert refused.returncode == 1 and "--local" in refused.stderr
    out = worked(tmp_path, *add(provider, "--key-env", "MODEL_KEY", "--local", "--role", "teacher"))
    assert "$3.00 in, $15.00 out" in out and "MODEL_KEY is not set" in out
    monkeypatch.setenv("MODEL_KEY", "CANARY-model-key")
    told = worked(tmp_path, "model", "test", "m")
    assert "m answered '42': 11 tokens in, 1 out, $0.000048." in told
    listed = worked(tmp_path, "model", "list")
    assert "$MODEL_KEY" in listed and "CANARY" not in listed
    pasted = command(tmp_path, *add(provider, "--key-env", "sk-CANARY-1"))
    assert pasted.returncode == 1 and "CANARY" not in pasted.stderr
    assert "is removed" in worked(tmp_path, "model", "remove", "m")
    assert "no model m" in command(tmp_path, "model", "test", "m").stderr


def test_a_project_keeps_a_cap_of_its_own_over_all_runs(
    tmp_path: Path, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "k")
    worked(tmp_path, *add(provider, "--key-env", "MODEL_KEY", "--local"))
    shown = worked(tmp_path, "project", "cap", "--max-cost-usd", "0.0001")
    assert "max_cost_usd: $0.0001" in shown
    refused = command(tmp_path, "model", "test", "m")
    assert refused.returncode == 1 and "total cap $0.0001" in refused.stderr
    assert provider.requests == []
    worked(tmp_path, "project", "cap", "--max-cost-usd", "none")
    assert "answered" in worked(tmp_path, "model", "test", "m")
    assert "has spent $0.000048" in worked(tmp_path, "project", "cap")


def test_keys_are_used_for_calls_and_found_nowhere_else(
    tmp_path: Path, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, tiny: ModelRef
) -> None:
    """Planted in the environment, the home folder, its .netrc, and the folder of the start."""
    plant(tmp_path, monkeypatch)
    home = tmp_path / "pawl"
    lay_model(home, tiny)
    server = Server(home, **CANARIES, HOME=str(tmp_path / "person"))
    try:
        key_file = str(tmp_path / "person" / "key")
        for name, where in (("m", ("--key-env", "MODEL_KEY")), ("f", ("--key-file", key_file))):
            worked(home, *add(provider, *where, "--local", name=name))
            worked(home, "model", "test", name)
        provider.behave = lambda body: "401" if body["model"] == "f" else "answer"
        assert command(home, "model", "test", "f").returncode == 1
        limits = {**SMALL, "max_model_cost_usd": 1.0}
        server.start_run(
            run="live", preset="smoke", base_model="tiny", operator_model="m", teacher_model="m"
        )
        server.wait_for(select(Child).where(col(Child.ended_at).is_(None)), 60)
        children = [Path(f"/proc/{pid}/environ").read_bytes() for pid in server.children()]
        assert children and not [one for one in children if b"CANARY" in one]
        server.start_run(run="dry", dry_run=True, student_model="m", rounds=1, limits=limits)
        ended = select(Run).where(Run.id == "dry", col(Run.state).in_(("finished", "stopped")))
        assert server.wait_for(ended, 240)[0].state == "finished"
        server.wait_for(select(ModelCall).where(ModelCall.run == "live"), 240)
        answers = json.dumps([ask(server, path) for path in paths()])
        call_admin(server.home.admin_socket, "model.list")
        worked(home, "cassette", "export", "dry", str(home / "dry.cassette"))
    finally:
        server.close()
    assert "CANARY" not in answers
    found = [str(path) for path in home.rglob("*") if path.is_file() and "CANARY" in text_of(path)]
    assert found == []
    sent = {headers["authorization"] for headers in provider.headers}
    assert sent == {"Bearer CANARY-model-key", "Bearer CANARY-key-file"}
    rest = [{**headers, "authorization": ""} for headers in provider.headers]
    assert "CANARY" not in json.dumps(rest)
    assert len(provider.requests) > 100
    assert server.read(select(Event)) and server.read(select(Account))


def plant(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets where libraries look for them by themselves."""
    person, work = folder / "person", folder / "work"
    person.mkdir()
    work.mkdir()
    (person / ".netrc").write_text("machine 127.0.0.1 login CANARY-user password CANARY-netrc\n")
    (person / "key").write_text("CANARY-key-file\n")
    (person / ".openai").write_text("CANARY-dotfile")
    for file in person.iterdir():
        file.chmod(0o600)
    (work / ".env").write_text("OPENAI_API_KEY=CANARY-dotenv\n")
    monkeypatch.chdir(work)


def paths() -> list[str]:
    runs = [f"/v1/agent-runs/rsi/runs/{run}{page}" for run in ("live", "dry") for page in PAGES]
    span = "start=2020-01-01T00:00:00Z&end=2099-01-01T00:00:00Z"
    bills = ["account", "ledger", "prices", f"usage?{span}&group_by=sku"]
    return [*runs, "/v1/job", *(f"/v1/billing/{bill}" for bill in bills), "/readyz"]


def ask(server: Server, path: str) -> Any:
    request = urllib.request.Request(server.url + path)
    key = server.home.owner_key.read_text().strip()
    request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def text_of(path: Path) -> str:
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    return raw.decode(errors="replace")


def test_a_run_does_not_start_with_a_model_that_cannot_be_called(
    tmp_path: Path, provider: FakeProvider
) -> None:
    server = Server(tmp_path, PAWL_SIM_PACE="0.3")
    try:
        assert "MODEL_KEY" not in os.environ
        worked(tmp_path, *add(provider, "--key-env", "MODEL_KEY", "--local"))
        worked(tmp_path, *add(provider, "--local", name="blocked"))
        with pytest.raises(ServiceError, match="operator_model: model m: .*MODEL_KEY is not set"):
            server.start_run(run="a", preset="sim", operator_model="m")
        with pytest.raises(ServiceError, match="teacher_model: 'nobody' has no known price"):
            server.start_run(run="a", preset="sim", teacher_model="nobody")
        provider.behave = lambda body: "too long"
        assert "PRICE_BOUND_VIOLATED" in command(tmp_path, "model", "test", "blocked").stderr
        with pytest.raises(ServiceError, match="PRICE_BOUND_VIOLATED.*model confirm blocked"):
            server.start_run(run="a", preset="sim", operator_model="blocked")
        assert "refused: PRICE_BOUND_VIOLATED" in worked(tmp_path, "model", "list")
        worked(tmp_path, "model", "confirm", "blocked")
        server.start_run(run="a", preset="sim", operator_model="blocked", rounds=1)
        assert "stop it first" in command(tmp_path, "model", "remove", "blocked").stderr
        assert server.read(select(GatewayModel).where(GatewayModel.name == "m"))
    finally:
        server.close()
