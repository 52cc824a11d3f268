"""The tab Cost: model money in four numbers, where it went, and what is still to come."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from nicegui import ui

from app.cost_shapes import RunCost
from app.errors import ServiceError
from pages import words
from pages.cost_ahead import all_money, forecast, gain, stop_now
from pages.cost_breakdown import BY, breakdown, device_time
from pages.live import Panel, Part
from pages.parts import box, simulated_chip, text, trouble
from pages.place import Place
from pages.run_view import RunView


def panels(view: RunView, place: Place) -> list[Part]:
    """Draw the tab; the parts that the page refreshes."""
    drawn: list[Part] = []

    def panel(draw: Callable[[RunCost], None]) -> None:
        shown = Panel(lambda: draw(view.cost) if view.cost else None, lambda: view.cost)
        drawn.append(shown)

    def choose(by: str) -> None:
        place.ask(by=by)
        calls.refresh()

    with box("pw-card pw-money", "section").props('aria-label="Model spend"'):
        with box("pw-row pw-between pw-wrap"):
            _heading(view)
            with box("pw-row"):
                drawn.append(Panel(lambda: _still_open(view), lambda: (view.cost, view.ended)))
                button = ui.button("Refresh", icon="sym_o_refresh", color=None)
                button.on_click(lambda: _refresh(view))
                button.props("no-caps outline").classes("pw-sm")
        drawn.append(Panel(lambda: _model_money(view.cost), lambda: view.cost))
    with box("pw-cols2"):
        with box("pw-stack"):
            calls = Panel(
                lambda: breakdown(view.cost, _by(place), choose) if view.cost else None,
                lambda: (view.cost, _by(place)),
            )
            drawn.append(calls)
            panel(device_time)
        with box("pw-stack"):
            for draw in (all_money, forecast, stop_now, gain):
                panel(draw)
    return drawn


def _by(place: Place) -> str:
    return place.get("by") if place.get("by") in BY else next(iter(BY))


async def _refresh(view: RunView) -> None:
    if view.visitor.still() is None:
        return
    try:
        await asyncio.to_thread(view.read, RunView.read_cost, whole=True)
    except ServiceError as error:
        ui.notify(str(error), type="negative")
    view.show()


def _heading(view: RunView) -> None:
    with box("pw-row"):
        text("Model spend", "pw-h2", "h2")
        if view.detail.simulated:
            simulated_chip()
            text("simulated models are priced here and paid to nobody", "pw-small pw-2")


def _still_open(view: RunView) -> None:
    cost = view.cost
    if cost is not None and not view.ended and cost.reserved_usd:
        told = f"A stop now can still bill up to {words.usd_fine(cost.reserved_usd)}: reserved"
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
                text(words.usd_fine(number.amount), "pw-big", "div")
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
        _Number("Cap", "pw-b4", cost.cap_usd, f"{words.usd_fine(free)} free"),
    ]


def _committed(cost: RunCost) -> float:
    return cost.confirmed_usd + cost.uncertain_usd + cost.reserved_usd


def _bar(cost: RunCost) -> None:
    """Confirmed solid, uncertain diagonal, reserved vertical, free empty; of the cap if there is one."""
    whole = cost.cap_usd or _committed(cost) or 1.0
    usd = words.usd_fine
    told = (
        f"{usd(cost.confirmed_usd)} confirmed, {usd(cost.uncertain_usd)} uncertain, "
        f"{usd(cost.reserved_usd)} reserved of {usd(cost.cap_usd)}"
    )
    parts = {"": cost.confirmed_usd, "pw-b2": cost.uncertain_usd, "pw-b3": cost.reserved_usd}
    with box("pw-bar pw-lg").props("role=img").props(f'aria-label="{told}"'):
        for css, amount in parts.items():
            box(css, "i").style(f"width: {100 * min(1.0, amount / whole):.2f}%")


def _counted(number: int, one: str, many: str) -> str:
    return f"{words.count(number)} {one if number == 1 else many}"
