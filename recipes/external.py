"""External suites by name: public tasks that a preset can have measured, and that never gate."""

from collections.abc import Callable

from engine.types import Suite
from recipes.human_eval import human_eval

EXTERNAL: dict[str, Callable[[], Suite]] = {"human-eval": human_eval}
