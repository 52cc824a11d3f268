"""Where a run's money went: calls by role, model, round or phase, device time by round."""

from collections.abc import Callable, Iterable, Sequence

from app.cost_shapes import CallCost, PhaseTime, RunCost
from pages import states, words
from pages.parts import box, card, icon, segments, simulated_chip, text

BEFORE = "before round 1"
BY: dict[str, tuple[str, Callable[[CallCost], tuple[str, ...]]]] = {
    "role": ("By role", lambda call: (call.role, call.model)),
    "model": ("By model", lambda call: (call.model,)),
    "round": ("By round", lambda call: (_round(call.round),)),
    "phase": ("By phase", lambda call: (call.phase.replace("_", " "),)),
}
HEADS = {"role": ("Role", "Model"), "model": ("Model",), "round": ("Round",), "phase": ("Phase",)}
FIGURES = ("Calls", "Input tokens", "Cached", "Output tokens", "Errors", "Spend")


def breakdown(cost: RunCost, by: str, choose: Callable[[str], None]) -> None:
    """The calls added up by what is chosen; the last row is the total."""
    with card("Calls to models") as head:
        with head:
            choices = {name: word for name, (word, _) in BY.items()}
            segments("By", choices, by, choose).style("margin-left: auto")
        if not cost.calls:
            text("No model behind the gateway was asked yet.", "pw-quiet", "div")
            return
        with box("pw-scroll"), box("pw-sheet pw-dense", "table"):
            _head(HEADS[by])
            with box(tag="tbody"):
                for names, calls in _groups(cost.calls, BY[by][1]).items():
                    _calls_row(names, calls)
                blank = ("",) * (len(HEADS[by]) - 1)
                _calls_row(("all", *blank), cost.calls, "pw-strong")


def device_time(cost: RunCost) -> None:
    """Device time, a row a round, a column a phase; the last row adds up."""
    sub = f"{words.duration(cost.device_seconds)} in all, by round and phase"
    if cost.device_usd:
        sub += f", {words.usd_fine(cost.device_usd)}"
    with card("Device time", sub):
        if not cost.phases:
            text("The device was not used yet.", "pw-quiet", "div")
            return
        phases = list(dict.fromkeys(one.phase for one in cost.phases))
        money = ("all", "cost") if cost.device_usd else ("all",)
        with box("pw-scroll"), box("pw-sheet pw-dense", "table"):
            with box(tag="thead"), box(tag="tr"):
                text("Round", tag="th").props("scope=col")
                for phase in [*phases, *money]:
                    text(phase.replace("_", " "), "pw-num", "th").props("scope=col")
            with box(tag="tbody"):
                for number in sorted({one.round for one in cost.phases}, reverse=True):
                    of_round = [one for one in cost.phases if one.round == number]
                    _time_row(_round(number), phases, of_round, priced=len(money) > 1)
                _time_row("all", phases, cost.phases, "pw-strong", priced=len(money) > 1)


def _round(number: int) -> str:
    return str(number) if number else BEFORE


def _groups(
    calls: Sequence[CallCost], key: Callable[[CallCost], tuple[str, ...]]
) -> dict[tuple[str, ...], list[CallCost]]:
    found: dict[tuple[str, ...], list[CallCost]] = {}
    for call in calls:
        found.setdefault(key(call), []).append(call)
    return found


def _head(names: tuple[str, ...]) -> None:
    with box(tag="thead"), box(tag="tr"):
        for name in names:
            text(name, tag="th").props("scope=col")
        for name in FIGURES:
            text(name, "pw-num", "th").props("scope=col")


def _calls_row(names: tuple[str, ...], calls: Sequence[CallCost], classes: str = "") -> None:
    with box(classes, "tr"):
        for number, name in enumerate(names):
            with box("" if number == 0 else "pw-2", "td"), box("pw-row", "span"):
                text(name)
                if number == len(names) - 1 and any(call.simulated for call in calls):
                    simulated_chip()
        for figure in _figures(calls):
            text(figure, "pw-num" + (" pw-faint" if figure == words.DASH else ""), "td")


def _figures(calls: Sequence[CallCost]) -> list[str]:
    return [
        words.count(sum(call.calls for call in calls)),
        words.count(_known(call.tokens_in for call in calls)),
        words.count(_known(call.tokens_cached for call in calls)),
        words.count(_known(call.tokens_out for call in calls)),
        words.count(sum(call.failed + call.uncertain for call in calls)),
        words.usd_fine(sum(round(call.cost_usd * 1e6) for call in calls) / 1e6),
    ]


def _known(counts: Iterable[int | None]) -> int | None:
    told = [one for one in counts if one is not None]
    return sum(told) if told else None


def _time_row(
    name: str, phases: list[str], times: list[PhaseTime], classes: str = "", *, priced: bool
) -> None:
    with box(classes, "tr"):
        text(name, tag="td")
        for phase in phases:
            found = [one for one in times if one.phase == phase]
            _time_cell(found, holds=not classes and any(one.held for one in found))
        _time_cell(times)
        if priced:
            text(words.usd_fine(sum(one.cost_usd or 0.0 for one in times)), "pw-num", "td")


def _time_cell(times: list[PhaseTime], *, holds: bool = False) -> None:
    with box("pw-num", "td"):
        if holds:
            icon(states.RUNNING.icon, "pw-holds").props('title="holds the device"')
        seconds = sum(one.seconds for one in times) if times else None
        text(words.duration(seconds), "" if times else "pw-faint")
