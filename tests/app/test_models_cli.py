"""What `run.py model` prints: where a key is wrong, dearer prices, blocks, and what is uncertain."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import Session

from app.models_cli import run_command
from app.options import parse
from data.home import Home
from data.store import Store
from data.tables import GatewayModel
from run import money_commands
from tests.fake_provider import FakeProvider

PRICES = ("--input-usd-per-mtok", "3", "--output-usd-per-mtok", "15")


class Terminal:
    """Types commands on a home that no server holds."""

    def __init__(self, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self._capsys = home, capsys

    def type(self, *words: str) -> str:
        """Everything that a person sees."""
        run_command(parse(["model", *words]), self.home, money_commands)
        said = self._capsys.readouterr()
        return said.out + said.err


@pytest.fixture
def terminal(home: Home, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(home, capsys)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as one:
        yield one


def add(terminal: Terminal, provider: FakeProvider, name: str, *more: str) -> str:
    return terminal.type("add", name, "--base-url", provider.base_url, *PRICES, "--local", *more)


def test_the_list_says_what_is_wrong_with_a_key(
    terminal: Terminal, provider: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    files = {name: tmp_path / name for name in ("open", "empty", "gone", "good")}
    for name, file in files.items():
        if name != "gone":
            file.write_text("" if name == "empty" else "k")
            file.chmod(0o644 if name == "open" else 0o600)
        add(terminal, provider, name, "--key-file", str(file))
    add(terminal, provider, "unset", "--key-env", "NO_SUCH_KEY")
    said = terminal.type("list")
    for name, word in (("open", "mode 644"), ("empty", "empty"), ("gone", "missing")):
        assert f"{files[name]} ({word})" in said
    assert "$NO_SUCH_KEY (not set)" in said and f"{files['good']} (" not in said
    assert f"others may read {files['open']}: chmod 600 it." in said


def test_the_list_shows_dearer_prices_of_long_requests(
    terminal: Terminal, provider: FakeProvider
) -> None:
    add(terminal, provider, "m", "--tier", "200000:6:22.5:0.6", "--tier", "100000:4:20")
    said = terminal.type("list").splitlines()
    assert [line for line in said if line.startswith("m above")] == [
        "m above 100,000 tokens: input $4.00, output $20.00",
        "m above 200,000 tokens: input $6.00, cached $0.60, output $22.50",
    ]


def test_confirming_what_is_not_refused_says_so(terminal: Terminal, provider: FakeProvider) -> None:
    add(terminal, provider, "m")
    assert "was not refused: there was nothing to confirm" in terminal.type("confirm", "m")

    def block(session: Session) -> None:
        row = session.get_one(GatewayModel, "m")
        row.blocked = "too dear"
        session.add(row)

    store = Store(terminal.home.database)
    store.write(block)
    store.close()
    assert "Model m may be called again" in terminal.type("confirm", "m")
    assert "no model x" in terminal.type("confirm", "x")


def test_a_try_whose_cost_nobody_knows_says_so(terminal: Terminal, provider: FakeProvider) -> None:
    add(terminal, provider, "m")
    assert "uncertain" not in terminal.type("test", "m")
    provider.behave = lambda body: "no usage"
    said = terminal.type("test", "m")
    assert "m answered '42'" in said and "This cost is uncertain" in said
    provider.behave = lambda body: "broken"
    assert "Uncertain: charged $" in terminal.type("test", "m")
