"""What is still to come, and what was bought: all money, forecast, the price of a stop, the gain."""

from nicegui import ui

from app.cost_shapes import Forecast, RunCost
from pages import states, words
from pages.parts import box, card, hint, pill, simulated_chip, term, text

usd = words.usd_fine


def all_money(cost: RunCost) -> None:
    """Model and device together, beside the cap on both."""
    with card("Model and device") as head, box("pw-cb"):
        _marked(head, cost)
        with box("pw-row").style("align-items: baseline"):
            text(usd(cost.total_usd), "pw-big")
            text(f"of {usd(cost.total_cap_usd)}", "pw-2 pw-small")
        with box("pw-kv pw-gap", "dl"):
            term("Model", usd(cost.confirmed_usd + cost.uncertain_usd))
            if cost.simulated_usd:
                term("of it simulated", usd(cost.simulated_usd))
            term("Device", usd(cost.device_usd))
            term("Device, reserved", usd(cost.device_reserved_usd))
            term("Device hours", words.hours(cost.device_seconds))
            requests = f"{words.count(cost.requests)} of {words.count(cost.requests_cap)}"
            term("Model requests", requests)
        if cost.device_seconds and not cost.device_usd and not cost.device_reserved_usd:
            hint("An hour on the device has no price here, so its time costs nothing.")
        hint("Not included: electricity, disk, and calls made outside this run.")


def forecast(cost: RunCost) -> None:
    """To the target, as the last completed rounds went; nothing once the run has ended."""
    ahead = cost.forecast
    if ahead is None:
        return
    left = f"{ahead.rounds_left} {'round' if ahead.rounds_left == 1 else 'rounds'} left"
    with card("Forecast", f"to the target, {left}") as head:
        _marked(head, cost)
        with box("pw-cb"):
            with box("pw-kv", "dl"):
                term("Model spend at the end", usd(ahead.model_usd), "pw-strong")
                term("Range", _between(usd(ahead.model_low_usd), usd(ahead.model_high_usd)))
                term("Model and device", usd(ahead.total_usd))
                low, high = words.duration(ahead.seconds_low), words.duration(ahead.seconds_high)
                term("Time left", _between(low, high))
                _reaches(ahead)
            hint(_rests_on(ahead))


def _rests_on(ahead: Forecast) -> str:
    if not ahead.from_rounds:
        return "Known once a round is completed."
    rounds = "the last round" if ahead.from_rounds == 1 else f"the last {ahead.from_rounds} rounds"
    return f"From what {rounds} took. The run may end earlier."


def _reaches(ahead: Forecast) -> None:
    text("Reaches a cap", tag="dt")
    with box("", "dd"):
        if not ahead.from_rounds:
            text(words.DASH, "pw-faint")
        elif ahead.reaches is None:
            pill(states.Sign("not expected", "pw-ok", "sym_o_check_circle"))
        else:
            pill(states.Sign(f"the {ahead.reaches}", "pw-att", "sym_o_payments"))


def stop_now(cost: RunCost) -> None:
    """What a stop can still cost; nothing once the run has ended."""
    stop = cost.stop_now
    if stop is None:
        return
    with card("If it is stopped now", "it ends after the round under way") as head:
        _marked(head, cost)
        with box("pw-cb"), box("pw-kv", "dl"):
            term("Reserved, at most", usd(stop.open_usd))
            phase = f", {stop.phase.replace('_', ' ')}" if stop.phase else ""
            term(f"Rest of the phase{phase}", usd(stop.phase_usd))
            term("Rest of the round", usd(stop.round_usd))


def gain(cost: RunCost) -> None:
    """Blind gain of the promoted versions, and what a point of it took."""
    bought = cost.gain
    promoted = ", ".join(bought.versions) if bought else "nothing promoted so far"
    with card("What it bought", promoted) as head:
        _marked(head, cost)
        with box("pw-cb"), box("pw-kv", "dl"):
            term(
                "Blind gain",
                f"{words.signed_points(bought.points)} points" if bought else words.DASH,
            )
            term("Model spend per point", usd(bought.model_usd_per_point if bought else None))
            term("Model and device per point", usd(bought.total_usd_per_point if bought else None))
            seconds = bought.device_seconds_per_point if bought else None
            term("Device time per point", words.duration(seconds))


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _marked(head: ui.element, cost: RunCost) -> None:
    """Figures of simulated models say so on every card that has some."""
    if cost.simulated:
        with head:
            simulated_chip()
