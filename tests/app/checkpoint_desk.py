"""The checkpoint commands on a home with the tiny model, as a person types them."""

import argparse
import shutil
from pathlib import Path

import pytest

from app import checkpoint_admin
from app.checkpoint_cli import Desk, run_command
from app.options import parse
from app.service import Service
from data.home import Home
from data.store import Reader
from engine.models.adapter_files import AdapterFiles
from engine.types import ModelRef


class Here:
    """A home with the tiny model, and its checkpoint commands as a person types them."""

    def __init__(self, home: Home, tiny: ModelRef, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.capsys = home, capsys
        shutil.copytree(tiny.path, home.models / "tiny")
        port = AdapterFiles(home, Path("none.gguf"), "")
        self.desk = Desk(
            home=home, port=port, more=lambda store: checkpoint_admin.commands(store, home)
        )

    def type(self, *words: str) -> tuple[int, str, str]:
        """Exit code, what was printed, and what was said of an error."""
        args: argparse.Namespace = parse(["checkpoint", *words])
        code = run_command(args, self.desk)
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def worked(self, *words: str) -> str:
        code, out, err = self.type(*words)
        assert code == 0, err
        return out

    def refused(self, *words: str) -> str:
        code, out, err = self.type(*words)
        assert (code, out) == (1, ""), out
        return err

    def service(self) -> Service:
        return Service(Reader(self.home.database), "CPU")
