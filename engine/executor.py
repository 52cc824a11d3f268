"""The seam that decides where a phase's work is done: here, in this process and its worker."""

from types import ModuleType
from typing import Any

from engine.facts import Facts, Tools


class LocalExecutor:
    """Does a phase's `execute` step in the calling thread."""

    def run(
        self, phase: ModuleType, work: dict[str, Any], run: Facts, tools: Tools
    ) -> dict[str, Any]:
        """The result of `phase.execute`; errors come through as they are."""
        result: dict[str, Any] = phase.execute(work, run, tools)
        return result
