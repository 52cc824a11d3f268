"""What one open run page has read: details, live view, the newest events."""

from dataclasses import dataclass, field

from app.service import Service
from app.shapes import EventShape, Live, RunDetail
from pages import states
from pages.frame import Visitor

KEPT_EVENTS = 100


@dataclass(kw_only=True, slots=True)
class RunView:
    """One visitor's view of a run: what was read last, and the newest events first."""

    visitor: Visitor
    service: Service
    run: str
    detail: RunDetail
    live: Live
    events: list[EventShape] = field(default_factory=list)

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

    def read(self) -> None:
        """Read what is new; the details only when something happened since."""
        before = (self.live.next_cursor, self.live.run_state, self.live.updated_at)
        self._read_on()
        if before != (self.live.next_cursor, self.live.run_state, self.live.updated_at):
            self.detail = self.service.run_detail(self.visitor.caller, self.run)

    def _read_on(self) -> None:
        self.live = self.service.run_live(
            self.visitor.caller, self.run, since=self.live.next_cursor
        )
        self._take(self.live.events)

    def _take(self, events: list[EventShape]) -> None:
        self.events = [*reversed(events), *self.events][:KEPT_EVENTS]
