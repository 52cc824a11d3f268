"""The tab Cost: model money in four numbers, the device's time and money, requests, all of caps."""

import asyncio
from typing import NamedTuple

from nicegui import ui

from app.errors import ServiceError
from app.shapes import PhaseTime, RunCost
from pages import states, words
from pages.live import Panel, Part
from pages.parts import box, card, hint, icon, term, text, trouble
from pages.place import Place
from pages.run_view import RunView


def panels(view: RunView, _place: Place) -> list[Part]:
    """Draw the tab; the parts that the page refreshes."""
    drawn: list[Part] = []

    async def refresh() -> None:
        if view.visitor.still() is None:
            return
        try:
            await asyncio.to_thread(view.read, RunView.read_cost, whole=True)
        except ServiceError as error:
            ui.notify(str(error), type="negative")
        view.show()

    with box("pw-card pw-money", "section").props('aria-label="Model spend"'):
        with box("pw-row pw-between pw-wrap"):
            text("Model spend", "pw-h2", "h2")
            with box("pw-row"):
                drawn.append(Panel(lambda: _still_open(view), lambda: (view.cost, view.ended)))
                button = ui.button("Refresh", icon="sym_o_refresh", color=None, on_click=refresh)
                button.props("no-caps outline").classes("pw-sm")
        drawn.append(Panel(lambda: _model_money(view.cost), lambda: view.cost))
    with box("pw-cols2"):
        with box("pw-stack"):
            drawn.append(Panel(lambda: _device_time(view.cost), lambda: view.cost))
        with box("pw-stack"):
            drawn.append(Panel(lambda: _all_money(view.cost), lambda: view.cost))
    return drawn


def _still_open(view: RunView) -> None:
    cost = view.cost
    if cost is not None and not view.ended and cost.reserved_usd:
        told = f"A stop now can still bill up to {words.usd(cost.reserved_usd)}: reserved"
        text(told, "pw-small pw-2")


class _Number(NamedTuple):
    word: str
    key: str  # class of its swatch
    amount: float | None
    about: str


def _model_money(cost: RunCost | None) -> None:
    if cost is None:
        trouble("The cost could not be read; refresh to try again.")
        return
    with box("pw-four"):
        for number in _four(cost):
            with box():
                with box("pw-row pw-small pw-2"):
                    box(f"pw-swatch2 {number.key}", "i").props("aria-hidden=true")
                    text(number.word)
                text(words.usd(number.amount), "pw-big", "div")
                text(number.about, "pw-small pw-faint", "div")
    _bar(cost)


def _four(cost: RunCost) -> list[_Number]:
    free = None if cost.cap_usd is None else cost.cap_usd - _committed(cost)
    answered = _counted(cost.confirmed_calls, "call", "calls")
    failed = f", {words.count(cost.failed_calls)} failed" if cost.failed_calls else ""
    unknown = _counted(cost.uncertain_calls, "call", "calls")
    return [
        _Number("Confirmed", "", cost.confirmed_usd, answered + failed),
        _Number("Uncertain", "pw-b2", cost.uncertain_usd, f"{unknown}, outcome unknown"),
        _Number(
            "Reserved",
            "pw-b3",
            cost.reserved_usd,
            _counted(cost.open_calls, "call", "calls") + " open",
        ),
        _Number("Cap", "pw-b4", cost.cap_usd, f"{words.usd(free)} free"),
    ]


def _committed(cost: RunCost) -> float:
    return cost.confirmed_usd + cost.uncertain_usd + cost.reserved_usd


def _bar(cost: RunCost) -> None:
    """Confirmed solid, uncertain diagonal, reserved vertical, free empty; of the cap if there is one."""
    whole = cost.cap_usd or _committed(cost) or 1.0
    told = (
        f"{words.usd(cost.confirmed_usd)} confirmed, {words.usd(cost.uncertain_usd)} uncertain, "
        f"{words.usd(cost.reserved_usd)} reserved of {words.usd(cost.cap_usd)}"
    )
    parts = {"": cost.confirmed_usd, "pw-b2": cost.uncertain_usd, "pw-b3": cost.reserved_usd}
    with box("pw-bar pw-lg").props("role=img").props(f'aria-label="{told}"'):
        for css, amount in parts.items():
            box(css, "i").style(f"width: {100 * min(1.0, amount / whole):.2f}%")


def _device_time(cost: RunCost | None) -> None:
    """Device time, a row a round, a column a phase; the last row adds up."""
    whole = words.duration(cost.device_seconds) if cost else words.DASH
    with card("Device time", f"{whole} in all, by round and phase"):
        if cost is None or not cost.phases:
            text("The device was not used yet.", "pw-quiet", "div")
            return
        phases = list(dict.fromkeys(one.phase for one in cost.phases))
        with box("pw-scroll"), box("pw-sheet pw-dense", "table"):
            with box(tag="thead"), box(tag="tr"):
                text("Round", tag="th").props("scope=col")
                for phase in [*phases, "all"]:
                    text(phase.replace("_", " "), "pw-num", "th").props("scope=col")
            with box(tag="tbody"):
                for number in sorted({one.round for one in cost.phases}, reverse=True):
                    of_round = [one for one in cost.phases if one.round == number]
                    _time_row(str(number) if number else "before round 1", phases, of_round)
                _time_row("all", phases, cost.phases, "pw-strong")


def _time_row(name: str, phases: list[str], times: list[PhaseTime], classes: str = "") -> None:
    with box(classes, "tr"):
        text(name, tag="td")
        for phase in phases:
            found = [one for one in times if one.phase == phase]
            _time_cell(found, holds=not classes and any(one.held for one in found))
        _time_cell(times)


def _time_cell(times: list[PhaseTime], *, holds: bool = False) -> None:
    with box("pw-num", "td"):
        if holds:
            icon(states.RUNNING.icon, "pw-holds").props('title="holds the device"')
        seconds = sum(one.seconds for one in times) if times else None
        text(words.duration(seconds), "" if times else "pw-faint")


def _all_money(cost: RunCost | None) -> None:
    with card("Model and device"), box("pw-cb"):
        if cost is None:
            text(words.DASH, "pw-faint")
            return
        with box("pw-row").style("align-items: baseline"):
            text(words.usd(cost.total_usd), "pw-big")
            text(f"of {words.usd(cost.total_cap_usd)}", "pw-2 pw-small")
        with box("pw-kv pw-gap", "dl"):
            term("Model", words.usd(cost.confirmed_usd + cost.uncertain_usd))
            term("Device", words.usd(cost.device_usd))
            term("Device, reserved", words.usd(cost.device_reserved_usd))
            term("Device hours", words.hours(cost.device_seconds))
            requests = f"{words.count(cost.requests)} of {words.count(cost.requests_cap)}"
            term("Model requests", requests)
        if cost.device_seconds and not cost.device_usd and not cost.device_reserved_usd:
            hint("An hour on the device has no price here, so its time costs nothing.")
        hint("Not included: electricity, disk, and calls made outside this run.")


def _counted(number: int, one: str, many: str) -> str:
    return f"{words.count(number)} {one if number == 1 else many}"
