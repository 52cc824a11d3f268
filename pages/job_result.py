"""A job's outcome in figures, and the moments at which it entered its states."""

from collections.abc import Mapping

from app.job_status import ACTIVE
from app.shapes import Interval
from pages import parts, states, words
from pages.browser import When
from pages.job_view import JobView
from pages.parts import box, card, pill, simulated_chip, text
from pages.progress_line import ProgressLine

SCORED = {
    "base": "Base model",
    "adapter": "Checkpoint",
    "dev": "Dev",
    "blind": "Blind",
    "held_out": "Held-out",
    "guard": "Guard",
}
FIGURES = {
    "steps": "Steps",
    "rows_used": "Rows used",
    "target_tokens": "Trained tokens",
    "loss_first": "First loss",
    "loss_last": "Last loss",
    "seconds": "Training time",
    "p_value": "p of the difference",
    "fixed": "Tasks fixed",
    "regressed": "Tasks regressed",
    "coverage": "Coverage",
    "conservative": "Conservative difference",
}
PARTS = ("mean", "low", "high", "n")
Metrics = Mapping[str, float]


class ProgressCard:
    """How far a training by hand is; nothing of it is seen before it begins and after its end."""

    def __init__(self, view: JobView) -> None:
        self._view = view
        self._card = box("pw-card pw-steps", "section").props('aria-label="Progress"')
        with self._card:
            self._line = ProgressLine(lambda: view.progress)
        self.refresh()

    def refresh(self) -> None:
        """Bring it up to date."""
        self._line.refresh()
        self._card.set_visibility(self._view.progress is not None)


def result_cards(view: JobView) -> None:
    """What was trained, and what it scored."""
    metrics = view.result.metrics if view.result else {}
    scored = [name.removesuffix("_mean") for name in metrics if name.endswith("_mean")]
    used = {f"{name}_{part}" for name in [*scored, "difference"] for part in PARTS}
    used |= {"difference", "n"} if "difference" in metrics else set()
    with box("pw-cols2"):
        _scores(view, metrics, scored)
        _figures(view, {name: value for name, value in metrics.items() if name not in used})


def _scores(view: JobView, metrics: Metrics, scored: list[str]) -> None:
    spans = any(f"{name}_low" in metrics for name in scored)
    with card("Evaluation", f"mean over scored{', 95% interval' if spans else ''}") as head:
        if view.result is not None and view.result.simulated:
            with head:
                simulated_chip()
        if not scored:
            text(_none(view, "scores"), "pw-quiet", "div")
            return
        with box("pw-scroll"), box("pw-jobs", "table").props('aria-label="Evaluation"'):
            with box(tag="thead"), box(tag="tr"):
                text("", tag="th")
                for word in ("Mean", *(["Interval"] if spans else []), "n"):
                    text(word, "pw-num", "th").props("scope=col")
            with box(tag="tbody"):
                for name in scored:
                    _score(name, metrics, spans)
                if "difference" in metrics:
                    _difference(metrics)


def _score(name: str, metrics: Metrics, spans: bool) -> None:
    with box(tag="tr"):
        text(SCORED.get(name, name.replace("_", " ")), "pw-strong", "td")
        text(words.score(metrics[f"{name}_mean"]), "pw-num", "td")
        if spans:
            span = words.interval(metrics.get(f"{name}_low"), metrics.get(f"{name}_high"))
            text(span, "pw-num pw-2", "td")
        count = metrics.get(f"{name}_n", metrics.get("n"))
        text(words.DASH if count is None else words.count(int(count)), "pw-num", "td")


def _difference(metrics: Metrics) -> None:
    """The paired difference; it has colour and arrow only where its interval excludes zero."""
    low, high = metrics.get("difference_low"), metrics.get("difference_high")
    found = Interval(mean=metrics["difference"], low=low, high=high)
    with box(tag="tr"):
        text("Difference, paired", "pw-strong", "td")
        with box("pw-num", "td"):
            parts.change(found.mean, found)
        text(words.span(low, high), "pw-num pw-2", "td")
        count = metrics.get("n")
        text(words.DASH if count is None else words.count(int(count)), "pw-num", "td")


def _figures(view: JobView, rest: Metrics) -> None:
    with card("Figures"):
        if not rest:
            text(_none(view, "figures"), "pw-quiet", "div")
            return
        with box("pw-kv pw-cb", "dl"):
            for name, value in rest.items():
                text(FIGURES.get(name, name.replace("_", " ").capitalize()), tag="dt")
                text(_figure(name, value), tag="dd")


def _none(view: JobView, what: str) -> str:
    return f"No {what} yet." if view.item.status in ACTIVE else f"It has no {what}."


def _figure(name: str, value: float) -> str:
    if name == "seconds":
        return words.duration(value)
    if name == "coverage":
        return words.percent(value)
    if name == "conservative":
        return words.signed(value)
    whole = float(value).is_integer() and not name.startswith(("loss", "p_"))
    return words.count(int(value)) if whole else words.score(value)


def events_card(view: JobView) -> None:
    """When it entered which state, newest first."""
    with card("Events", "newest first"):
        if not view.events:
            text("Nothing has happened yet.", "pw-quiet", "div")
        for event in reversed(view.events):
            with box("pw-ev"):
                box()
                with box("pw-txt"):
                    pill(states.of(states.JOBS, event.status), "pw-plain")
                    text(event.source, "pw-who").style("margin-left: 8px")
                When(event.at).classes("pw-tm")
