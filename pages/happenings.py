"""What happens in a run: its events, what people have steered, the jobs that it started."""

from nicegui import ui

from app.shapes import EventShape, JobShape, SteerShape
from pages import states, words
from pages.browser import When
from pages.parts import box, card, icon, named, pill, text
from pages.place import Place
from pages.run_view import RunView

SHOWN_EVENTS = 100


class EventsCard:
    """The live events, newest first; new ones are put on top and nothing else moves.

    Kind and role can be chosen; the choice lives in the address.
    """

    def __init__(self, view: RunView, place: Place) -> None:
        self._view, self._place = view, place
        self._newest = 0
        with card("Live events", "newest first") as head:
            with head:
                box("pw-grow")
                self._choice("kind", "All kinds", list(states.EVENT_ICONS))
                self._choice("role", "All roles", list(states.ROLE_ICONS))
            self._none = text("", "pw-quiet", "div")
            self._list = box("pw-events").props('tabindex=0 role=log aria-label="Live events"')
        self.refresh()

    def refresh(self) -> None:
        """Put what has happened since on top."""
        fresh = [event for event in self._view.events if event.seq > self._newest]
        for event in reversed(fresh):
            self._newest = event.seq
            if self._fits(event):
                with self._list:
                    _event(event).move(target_index=0)
        rows = self._list.default_slot.children
        for row in rows[SHOWN_EVENTS:]:
            self._list.remove(row)
        self._none.set_visibility(not rows)
        self._none.text = (
            f"No match among the newest {words.count(len(self._view.events))} events."
            if self._view.events
            else "Nothing has happened yet."
        )

    def _choice(self, name: str, all_word: str, values: list[str]) -> None:
        asked = self._place.get(name)
        chosen = asked if asked in values else ""
        options = {"": all_word, **{value: value.replace("_", " ") for value in values}}
        select = ui.select(
            options, value=chosen, on_change=lambda event: self._ask(name, str(event.value))
        )
        select.props("outlined dense options-dense").classes("pw-choice").mark(f"events-{name}")
        named(select, f"Events by {name}")

    def _ask(self, name: str, value: str) -> None:
        self._place.ask(**{name: value})
        self._newest = 0
        self._list.clear()
        self.refresh()

    def _fits(self, event: EventShape) -> bool:
        kind, role = self._place.get("kind"), self._place.get("role")
        return (kind in ("", event.kind) or kind not in states.EVENT_ICONS) and (
            role in ("", event.role) or role not in states.ROLE_ICONS
        )


def _event(event: EventShape) -> ui.element:
    with box(f"pw-ev {'pw-err-ev' if event.kind == 'error' else ''}") as row:
        icon(states.EVENT_ICONS.get(event.kind, states.UNKNOWN_ICON)).props["title"] = event.kind
        with box("pw-txt"):
            text(event.role, "pw-who")
            text(event.text)
        When(event.at, "age").classes("pw-tm")
    return row


def steers_card(steers: list[SteerShape]) -> None:
    """Each steer with its receipt, newest first."""
    with card("Steers", str(len(steers)) if steers else ""):
        if not steers:
            text("No steer was given.", "pw-quiet", "div")
        for steer in reversed(steers):
            with box("pw-rec"):
                text(steer.text, "pw-q pw-lines-kept", "div")
                with box("pw-trail"):
                    sign = states.of(states.STEERS, steer.status)
                    with box(sign.css, "span"):
                        icon(sign.icon)
                        text(_receipt(steer))
                    if steer.status == "delivered":
                        text(_use(steer))
                    with box(tag="span"):
                        text(f"{steer.author},")
                        When(steer.at)


def _receipt(steer: SteerShape) -> str:
    if steer.status == "queued":
        return "queued, waits for the next turn"
    return f"{steer.status}: {steer.reason}" if steer.reason else steer.status


def _use(steer: SteerShape) -> str:
    """What the plan made of a steer that its operator has read."""
    if steer.used is None:
        return f"read in round {steer.round}, not cited by its plan"
    how = f": {steer.used.how}" if steer.used.how else ""
    return f"cited by plan, round {steer.used.round}{how}"


def jobs_card(run: str, jobs: list[JobShape]) -> None:
    """The jobs of the run, newest first, by the part of their id that tells them apart."""
    with card("Jobs of this run", str(len(jobs)) if jobs else ""):
        if not jobs:
            text("No job was started yet.", "pw-quiet", "div")
            return
        with box("pw-jobs", "table"):
            with box(tag="thead"), box(tag="tr"):
                for word, css in (("Job", ""), ("Type", ""), ("Round", "pw-num"), ("Status", "")):
                    text(word, css, "th")
            with box(tag="tbody"):
                for job in reversed(jobs):
                    _job(job, job.job_id.removeprefix(f"{run}-"))


def _job(job: JobShape, name: str) -> None:
    with box(tag="tr"):
        with box("pw-mono", "td"), ui.link(target=f"/jobs/{job.job_id}"):
            text(name).props["title"] = job.job_id
        text(job.type, tag="td")
        text(str(job.round) if job.round is not None else words.DASH, "pw-num", "td")
        with box(tag="td"):
            pill(states.of(states.JOBS, job.status), "pw-plain")
