"""A round, read top to bottom: nine phases from the failures of the best version to a decision."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from engine.rounds import (
    admit,
    audit,
    blind,
    collect,
    data_audit,
    develop,
    diagnose,
    gate,
    plan,
    train,
)

PHASES: tuple[ModuleType, ...] = (
    diagnose,  # the best version on fresh tasks: what fails
    plan,  # one hypothesis: families, mix, settings
    collect,  # new tasks answered; help only where the student has none right
    admit,  # which answers become rows
    data_audit,  # the audits that look at rows alone
    train,  # rows into an adapter
    develop,  # candidate against best on dev
    blind,  # a dev winner against best on sealed tasks
    audit,  # the audits that the gate needs
    gate,  # promote, reject or inconclusive
)

Do = Callable[[ModuleType, int, dict[str, Any]], dict[str, Any]]


def run_round(do: Do, number: int, prepared: dict[str, Any]) -> dict[str, Any]:
    """Do every phase of a round in order; returns the gate's summary.

    `do(phase, number, past)` does one phase or reads its recorded result. A phase whose summary has
    `ends` sends the round straight to the gate with that decision.
    """
    past: dict[str, Any] = {"prepare": prepared}
    ended = False
    for phase in PHASES:
        if not ended or phase is gate:
            past[phase.NAME] = do(phase, number, past)
            ended = ended or "ends" in past[phase.NAME]
    decision: dict[str, Any] = past[gate.NAME]
    return decision
