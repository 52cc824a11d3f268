"""A gateway model in the student's seat: the engine of dry runs."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from engine.errors import GatewayFailed, Interrupted, RequestsUsedUp
from engine.models import simulated
from engine.models.gateway import CallPlace, Gateway
from engine.types import Answer, Ask, ModelRef, Stop, TrainJob, TrainProgress, TrainResult

AT_ONCE = 8  # calls in flight; their reservations share commits
BATCH = 24


def model_ref(name: str) -> ModelRef:
    """A dry run's student as a base model: nobody here has its weights, or can tell its revision."""
    if name in simulated.MODELS:
        return simulated.model_ref()
    return ModelRef(base=name, path="", revision="behind the gateway")


class GatewayStudent:
    """Answers for a run's student, one paid call an ask. It trains nothing."""

    def __init__(self, gateway: Gateway, model: str, place: CallPlace) -> None:
        self.name = f"gateway-{model}"
        self.simulated = model in simulated.MODELS
        self._gateway, self._model, self._slot = gateway, model, place.slot

    def generate(
        self,
        model: ModelRef,
        asks: Sequence[Ask],
        on_batch: Callable[[list[Answer]], None],
        stop: Stop,
    ) -> None:
        """Ask a few at a time; each answer is recorded and paid before it counts.

        A call that fails, or that its round may not make, is an answer without text. GatewayFailed
        when so many fail that nobody seems to be there.
        """
        some_came = False
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for start in range(0, len(asks), BATCH):
                if stop():
                    raise Interrupted("stopped between two batches of calls")
                batch = asks[start : start + BATCH]
                answers = list(pool.map(self._call, batch))
                failures = [one.error or "no answer" for one in answers if one.finish == "error"]
                if len(failures) == len(batch) and not (some_came and len(batch) < AT_ONCE):
                    raise GatewayFailed(failures[-1])
                some_came = True
                on_batch(answers)

    def _call(self, ask: Ask) -> Answer:
        # A shorter answer would be another protocol: near a cap a student is asked as ever, or not.
        try:
            return self._gateway.call(self._slot, self._model, ask, least_tokens=ask.max_tokens)
        except GatewayFailed as error:
            over = "used up" if isinstance(error, RequestsUsedUp) else "error"
            return Answer(key=ask.key, text=None, finish=over, error=str(error))

    def train(
        self, job: TrainJob, on_progress: Callable[[TrainProgress], None], stop: Stop
    ) -> TrainResult:
        """Never: a dry run trains nothing."""
        raise GatewayFailed("a gateway model cannot be trained here")

    def close(self) -> None:
        """Nothing is kept running."""
