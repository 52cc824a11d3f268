"""What one open run page has read: details, live view, the newest events, what the tab needs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from app.cost_shapes import RunCost
from app.service import Service
from app.shapes import EventShape, Live, RunDetail
from pages import states
from pages.frame import Visitor

KEPT_EVENTS = 500


@dataclass(kw_only=True, slots=True)
class RunView:
    """One visitor's view of a run: what was read last, and the newest events first."""

    visitor: Visitor
    service: Service
    run: str
    detail: RunDetail
    live: Live
    events: list[EventShape] = field(default_factory=list)
    cost: RunCost | None = None
    show: Callable[[], None] = lambda: None  # brings what stands on the page up to date

    @classmethod
    def read_first(cls, visitor: Visitor, service: Service, run: str) -> "RunView":
        """How the run stands now; the service's refusal when the run cannot be seen."""
        caller = visitor.caller
        detail = service.run_detail(caller, run)
        live = service.run_live(caller, run, limit=KEPT_EVENTS, newest=True)
        view = cls(visitor=visitor, service=service, run=run, detail=detail, live=live)
        view._take(live.events)
        return view

    @property
    def ended(self) -> bool:
        """Whether the run has ended and its last event is here."""
        return self.live.run_state in states.ENDED and not self.live.has_more

    def read(self, also: "Read | None" = None, *, whole: bool = False) -> None:
        """Read what is new, and what the open tab needs beside it.

        The details are read only when something happened since, unless the `whole` is asked for.
        """
        before = (self.live.next_cursor, self.live.run_state, self.live.updated_at)
        self._read_on()
        if whole or before != (self.live.next_cursor, self.live.run_state, self.live.updated_at):
            self.detail = self.service.run_detail(self.visitor.caller, self.run)
        if also is not None:
            also(self)

    def read_cost(self) -> None:
        """What the run has spent."""
        self.cost = self.service.run_cost(self.visitor.caller, self.run)

    def read_directives(self) -> None:
        """The standing instructions, also those that no event tells of."""
        found = self.service.directives(self.visitor.caller, self.run)
        self.detail = self.detail.model_copy(update={"directives": found})

    def _read_on(self) -> None:
        self.live = self.service.run_live(
            self.visitor.caller, self.run, since=self.live.next_cursor
        )
        self._take(self.live.events)

    def _take(self, events: list[EventShape]) -> None:
        self.events = [*reversed(events), *self.events][:KEPT_EVENTS]


Read = Callable[[RunView], None]
