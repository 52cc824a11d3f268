"""What one open job page has read: the job, and what the open tab shows of it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from app.errors import RunNotFound
from app.job_shapes import CheckpointItem, JobEvent, JobItem, JobResult, LogLine
from app.job_status import ACTIVE
from app.service import Service
from app.shapes import Progress, RunCompact
from pages.frame import Visitor
from pages.jobs_table import label

KEPT_LINES = 2000


@dataclass(kw_only=True, slots=True)
class JobView:
    """One visitor's view of a job: what was read last; log lines are the newest, oldest first."""

    visitor: Visitor
    service: Service
    job: str
    item: JobItem
    result: JobResult | None = None
    progress: Progress | None = None
    checkpoints: list[CheckpointItem] = field(default_factory=list)
    events: list[JobEvent] = field(default_factory=list)
    loop: RunCompact | None = None
    source: str = "all"
    lines: list[LogLine] = field(default_factory=list)
    cursor: str | None = None
    log_over: bool = False

    @classmethod
    def read_first(cls, visitor: Visitor, service: Service, job: str) -> "JobView":
        """The job as it is now; the service's refusal when it cannot be seen."""
        item = service.job(visitor.caller, job)
        return cls(visitor=visitor, service=service, job=job, item=item)

    @property
    def over(self) -> bool:
        """Whether nothing more is to come: the job has ended, and its log where that is read."""
        return self.item.status not in ACTIVE and (self.cursor is None or self.log_over)

    def read(self, also: "Read | None") -> None:
        """The job as it is now, and what a tab needs beside it."""
        self.item = self.service.job(self.visitor.caller, self.job)
        if also is not None:
            also(self)

    def read_result(self) -> None:
        """Its outcome in figures, and until then how far it is."""
        self.progress = self.service.job_progress(self.visitor.caller, self.job)
        self.result = self.service.job_result(self.visitor.caller, self.job)

    def read_checkpoints(self) -> None:
        """What it trained."""
        page = self.service.checkpoints(self.visitor.caller, job=self.job, limit=100)
        self.checkpoints = page.items

    def read_events(self) -> None:
        """When it entered which state."""
        self.events = self.service.job_events(self.visitor.caller, self.job).items

    def read_loop(self) -> None:
        """Where its run stands."""
        run = label(self.item, "run")
        try:
            self.loop = self.service.run_summary(self.visitor.caller, run) if run else None
        except RunNotFound:
            self.loop = None

    def read_log(self) -> None:
        """The log's end at first, then what was added."""
        page = self.service.job_logs(
            self.visitor.caller, self.job, source=self.source, limit=1000, cursor=self.cursor
        )
        self.lines = [*self.lines, *page.items][-KEPT_LINES:]
        self.cursor = page.next_cursor or self.cursor
        self.log_over = page.eof and not page.has_more

    def choose(self, source: str) -> None:
        """Read the log of another source, from its end."""
        self.source, self.lines, self.cursor = source, [], None


Read = Callable[[JobView], None]
