"""What a run may do and what it must refuse: a small model of the states that people are promised."""

from dataclasses import dataclass, field

ACTIVE = frozenset({"starting", "running", "paused"})
ENDED = frozenset({"finished", "failed", "stopped"})
CONFLICT, INVALID = "RSI_CONFLICT", "INVALID_RSI_REQUEST"
ENOUGH = 10.0  # dollars that pay for any run here; less does not pay for one round


@dataclass(kw_only=True, slots=True)
class ModelRun:
    """A run as people see it while the engine stands still.

    What they ask shows at once, though the engine carries it out when it next looks for work. Each
    request gives the code of its refusal, or None.
    """

    dry: bool
    cap: float
    target: int
    state: str = "starting"
    stopping: bool = False
    round: int = 0
    done: int = 0  # completed rounds
    steers: list[str] = field(default_factory=list)
    directives: list[str] = field(default_factory=list)

    def steer(self, text: str) -> str | None:
        """Only a run that is not over has a next turn."""
        if not text.strip():
            return "INVALID_STEER"
        if self.state not in ACTIVE:
            return "RSI_RUN_NOT_ACTIVE"
        self.steers.append(text)
        return None

    def direct(self, text: str) -> str | None:
        """A directive stands in every state."""
        if not text.strip():
            return "INVALID_DIRECTIVE"
        self.directives.append(text)
        return None

    def stop(self) -> str | None:
        """A second stop is as good as the first."""
        if self.state not in ACTIVE:
            return CONFLICT
        self.stopping = True
        return None

    def resume(self) -> str | None:
        """Only what was halted is resumed."""
        if self.state not in {"paused", "failed", "stopped"}:
            return CONFLICT
        self._go_on()
        return None

    def extend(self, rounds: int, cap: float | None) -> str | None:
        """More rounds than are done; caps may rise."""
        if rounds < 1:
            return INVALID
        if rounds <= self.done or (cap is not None and cap < self.cap):
            return CONFLICT
        self.target, self.cap = rounds, cap or self.cap
        if self.state in ENDED or (self.state == "paused" and self.stopping):
            self._go_on()
        return None

    def after_work(self, room: bool) -> set[str]:
        """The states that it may be in once the engine has worked; `room`: on the disk."""
        if self.state in ENDED:
            return {self.state}
        if self.state == "paused":
            return {"stopped" if self.stopping else "paused"}
        if self.state == "starting" and self.stopping:
            return {"stopped"}
        found = {"running", "stopped" if self.stopping or self.cap < ENOUGH else "finished"}
        if self.state == "starting" and not self.dry:
            found.add("starting")  # another one has the device
        return found if room else found | {"paused"}

    def worked(self, allowed: set[str], state: str, round_: int, done: int) -> None:
        """Take over what the engine made of it; AssertionError when it may not."""
        told = f"{state} in round {round_} with {done} done, from {self}"
        assert state in allowed, told
        assert self.round <= round_ <= max(self.round, self.target), told
        assert round_ == self.round or not self.stopping, f"begun after the stop: {told}"
        assert max(self.done, round_ - 1) <= done <= round_, told
        assert state != "finished" or done >= self.target, told
        self.state, self.round, self.done = state, round_, done
        self.stopping = self.stopping and state in ACTIVE

    def _go_on(self) -> None:
        self.state, self.stopping = "running", False
