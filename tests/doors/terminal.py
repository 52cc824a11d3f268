"""The command `el` as a person uses it: words in, exit code and output back."""

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from app.cli.main import main
from tests.server.process import ROOT

START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from app.cli.main import main; main()"
COMMAND = [sys.executable, "-P", "-c", START]
OURS = ("ENVLOOP_", "ENVPLATFORM_", "PAWL_", "PYTEST_")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """What it printed, once it has succeeded."""
        assert self.code == 0, self
        return json.loads(self.out)

    @property
    def refusal(self) -> str:
        """The code of the error that ended it with 1."""
        assert self.code == 1 and not self.out, self
        return self.err.partition(":")[0]


class Terminal:
    """Runs commands in this process, in an environment that starts empty of what `el` reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        for name in os.environ:
            if name.startswith(OURS) or name.lower() in PROXIES:
                monkeypatch.delenv(name)
        self.set(PAWL_HOME="/nonexistent")

    def set(self, **environment: str | None) -> None:
        """Change the environment; None takes a variable away."""
        for name, value in environment.items():
            if value is None:
                self._monkeypatch.delenv(name, raising=False)
            else:
                self._monkeypatch.setenv(name, value)

    def __call__(self, *words: str, stdin: str = "") -> Done:
        self._monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        out, err = self._capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start a command as a process of its own, in the same environment."""
        return subprocess.Popen(
            [*COMMAND, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
