"""Who sits in the student's seat of a run: the worker, its simulated twin, or a gateway model."""

from collections.abc import Callable

from engine.facts import Tools
from engine.models import simulated
from engine.models.gateway import CallPlace, Gateway, GatewayStudent
from engine.types import ModelEngine


def student_for(
    tools: Tools, gateway: Gateway, worker: Callable[[], ModelEngine], pace: float
) -> ModelEngine:
    """The engine that answers for this run's student in a phase."""
    run = tools.facts
    if run.dry:
        model = run.config.student_model or simulated.STUDENT

        def place() -> CallPlace:
            return CallPlace(run=run, round=tools.round, step=tools.step, role="student")

        return GatewayStudent(gateway, model, place)
    if run.simulated:
        return simulated.SimulatedWorker(pace)
    return worker()
