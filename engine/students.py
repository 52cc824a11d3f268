"""Who sits in the student's seat of a run: the worker, its simulated twin, or a gateway model."""

from collections.abc import Callable

from engine.facts import RunFacts
from engine.models import simulated
from engine.models.gateway import CallPlace, Gateway
from engine.models.gateway_student import GatewayStudent
from engine.types import ModelEngine, ModelRef, Stop


def student_for(
    place: CallPlace,
    gateway: Gateway,
    base_model: Callable[[str], ModelRef],
    worker: Callable[[ModelRef, Stop], ModelEngine],
    pace: float,
    stop: Stop,
) -> ModelEngine:
    """The engine that answers for a run's student in one phase; `worker` gives it ready to use."""
    run: RunFacts = place.run
    if run.dry:
        return GatewayStudent(gateway, run.config.student_model or simulated.STUDENT, place)
    return local_student(run.base_model, base_model, worker, pace, stop)


def local_student(
    name: str,
    base_model: Callable[[str], ModelRef],
    worker: Callable[[ModelRef, Stop], ModelEngine],
    pace: float,
    stop: Stop,
) -> ModelEngine:
    """The engine that answers and trains with a base model of this machine."""
    if name in simulated.MODELS:
        return simulated.SimulatedWorker(pace)
    return worker(base_model(name), stop)
