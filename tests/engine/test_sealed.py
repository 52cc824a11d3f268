"""Blind tasks reach the blind evaluation alone."""

import ast
import inspect
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from sqlmodel import SQLModel, select

from data.tables import Round, Run
from engine import sealed
from engine.facts import read_facts
from engine.models import simulated
from engine.rounds import blind
from engine.types import Task
from tests.instance import LIBRARY, Instance, instance

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("app", "data", "engine", "pages", "recipes")


def test_only_the_blind_phase_imports_the_sealed_tasks():
    importers = set()
    for file in [ROOT / "run.py", *(f for room in ROOMS for f in (ROOT / room).rglob("*.py"))]:
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
            if "engine.sealed" in names:
                importers.add(str(file.relative_to(ROOT)))
    assert importers == {"engine/rounds/blind.py"}


def everything_written(pawl: Instance) -> str:
    """Every row of every table and every file of the home, as text."""
    parts = []
    with pawl.store.read() as session:
        for table in SQLModel.metadata.sorted_tables:
            for row in session.execute(table.select()).mappings():
                parts.append(json.dumps({k: str(v) for k, v in row.items()}, ensure_ascii=False))
    for file in pawl.home.path.rglob("*"):
        if file.is_file() and not file.name.startswith("pawl.db"):
            parts.append(file.read_text(errors="replace"))
    return "\n".join(parts)


BLIND, HELD_OUT = "canary-blind-5d1f", "canary-held-out-77c2"


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A run whose sealed tasks carry canary words, with the prompts that each phase asked."""
    asked: dict[str, list[str]] = {}
    real_blind, real_held_out = sealed.blind_tasks, sealed.held_out_tasks
    real_generate, real_answer = simulated.SimulatedWorker.generate, simulated.answer

    def blind_tasks(*args):
        found, following = real_blind(*args)
        return [replace(one, task=with_word(one.task, BLIND)) for one in found], following

    def held_out_tasks(*args):
        return [with_word(task, HELD_OUT) for task in real_held_out(*args)]

    def generate(self, model, asks, on_batch, stop):
        files = [Path(frame.filename) for frame in inspect.stack()]
        phase = next(f.stem for f in files if f.parent.name == "rounds" and f.stem != "round")
        asked.setdefault(phase, []).extend(ask.messages[-1]["content"] for ask in asks)
        return real_generate(self, model, asks, on_batch, stop)

    def answer(model, ask, pace):
        asked.setdefault(model, []).append(ask.messages[-1]["content"])
        return real_answer(model, ask, pace)

    monkeypatch.setattr(simulated, "answer", answer)
    monkeypatch.setattr(sealed, "blind_tasks", blind_tasks)
    monkeypatch.setattr(sealed, "held_out_tasks", held_out_tasks)
    monkeypatch.setattr(simulated.SimulatedWorker, "generate", generate)
    with instance(tmp_path) as pawl:
        models = {"operator_model": "sim/operator", "teacher_model": "sim/teacher"}
        pawl.start("sim-1", rounds=1, **models)
        yield pawl, asked


def with_word(task: Task, word: str) -> Task:
    return replace(task, prompt=f"{task.prompt} {word}")


def test_no_row_event_or_file_holds_a_sealed_task_before_the_gate(planted, monkeypatch):
    pawl, asked = planted
    seen = []
    real = blind.unseal

    def look_first(*args):
        seen.append(everything_written(pawl))
        return real(*args)

    monkeypatch.setattr("engine.rounds.gate.unseal", look_first)
    pawl.wait("sim-1")
    (written,) = seen
    assert "candidate-1" in written
    assert BLIND not in written and HELD_OUT not in written
    for phase, prompts in asked.items():
        met = [p for p in prompts if BLIND in p or HELD_OUT in p]
        assert bool(met) == (phase == "blind"), phase
    models = {"sim/operator", "sim/teacher"}
    assert {"prepare", "diagnose", "collect", "develop", "blind", *models} <= set(asked)


def test_after_the_gate_blind_tasks_can_be_read_and_held_out_ones_cannot(planted):
    pawl, _ = planted
    pawl.wait("sim-1")
    written = everything_written(pawl)
    assert BLIND in written and HELD_OUT not in written


def test_blind_tasks_cannot_be_unsealed_before_the_gate(tmp_path):
    with instance(tmp_path) as pawl:
        pawl.start("sim-1", rounds=1)
        pawl.wait("sim-1")

        def reopen(session):
            row = session.exec(select(Round)).one()
            row.outcome = None
            session.add(row)
            session.flush()
            facts = read_facts(session.get(Run, "sim-1"), LIBRARY, pawl.home)
            blind.unseal(session, facts, 1, {"counts": {}, "starts": {}})

        with pytest.raises(AssertionError, match="sealed until the gate"):
            pawl.store.write(reopen)


def test_a_fault_among_sealed_tasks_is_named_without_its_text(tmp_path, monkeypatch):
    def breaks(*_: object) -> None:
        raise ValueError(f"cannot make {BLIND}")

    monkeypatch.setattr(sealed, "blind_tasks", breaks)
    with instance(tmp_path) as pawl:
        pawl.start("r", rounds=1, dry_run=True, limits={"max_model_cost_usd": 1.0})
        pawl.wait("r")
        (row,) = rounds_of(pawl)
        assert re.fullmatch(r"blind: ValueError in test_sealed\.py, line \d+", row.reason)
        assert BLIND not in everything_written(pawl)


def rounds_of(pawl: Instance) -> list[Round]:
    with pawl.store.read() as session:
        return list(session.exec(select(Round)))
