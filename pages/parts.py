"""The small parts that pages are made of: words, icons, pills, bars, cards."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from nicegui import ui

from app.shapes import Interval, Spend
from pages import states, words
from pages.states import Sign

MOST_PIPS = 12


def text(value: str, classes: str = "", tag: str = "span") -> ui.label:
    """Plain text in any tag. Whatever a model or a person wrote is shown by this and `ui.code`."""
    label = ui.label(value).classes(classes)
    label.tag = tag
    return label


def box(classes: str = "", tag: str = "div") -> ui.element:
    """An element that only groups others."""
    return ui.element(tag).classes(classes)


def icon(name: str, classes: str = "") -> ui.icon:
    """A Material Symbol that says nothing beyond the word beside it."""
    return ui.icon(name).classes(classes).props("aria-hidden=true")


def pill(sign: Sign, classes: str = "") -> None:
    """State, decision or verdict: icon, word, and a colour that only repeats them."""
    with box(f"pw-state {sign.css} {classes}", "span"):
        icon(sign.icon)
        text(sign.word)


def simulated_chip() -> None:
    """Violet and dashed, on every screen where a simulated figure is."""
    pill(states.SIMULATED)


def change(value: float | None, difference: Interval | None) -> None:
    """A change with sign; with arrow and colour only when its paired interval excludes zero."""
    if value is None:
        text(words.DASH, "pw-faint")
    elif not words.excludes_zero(difference):
        text(words.signed(value), "pw-small pw-faint")
    else:
        better = value > 0
        with box(f"pw-small pw-nowrap {'pw-good' if better else 'pw-bad'}", "span"):
            icon("sym_o_arrow_drop_up" if better else "sym_o_arrow_drop_down", "pw-tri")
            text(words.signed(value))


def pips(done: int, total: int, active: bool) -> None:
    """One small block a round; a long run shows its numbers alone."""
    if not 0 < total <= MOST_PIPS:
        return
    with box("pw-pips", "span").props("aria-hidden=true"):
        for number in range(1, total + 1):
            now = active and number == done
            box("c" if now else "d" if number <= done else "", "i")


def share_bar(share: float, classes: str = "", *, full: bool = False) -> None:
    """A bar whose value stands as text beside it."""
    with box(f"pw-bar {classes}").props("aria-hidden=true"):
        box("pw-full" if full else "", "i").style(f"width: {100 * min(1.0, max(0.0, share)):.1f}%")


def spend_share(spend: Spend) -> float:
    """How much of the model cap is spent, 0 to 1; 0 without a cap."""
    cap = spend.max_model_cost_usd
    return min(1.0, spend.model_usd / cap) if cap else 0.0


@contextmanager
def card(title: str, sub: str = "", classes: str = "") -> Iterator[ui.element]:
    """A flat card with a head; the head comes back, so that more can be put into it."""
    with box(f"pw-card {classes}", "section"):
        with box("pw-ch") as head:
            text(title, "pw-h2", "h2")
            if sub:
                text(sub, "pw-sub")
        yield head


def term(name: str, value: str, classes: str = "") -> None:
    """One line of a list of terms with their values."""
    text(name, tag="dt")
    text(value, classes, "dd")


def fact(name: str, value: str) -> None:
    """One of the facts in the head of a page."""
    with box("pw-fact"):
        text(name, tag="dt")
        text(value, tag="dd")


def segments(
    label: str,
    options: Mapping[str, str],
    chosen: str,
    choose: Callable[[str], object],
    counts: Mapping[str, int] | None = None,
) -> ui.element:
    """A choice of one among a few, "" being all of them, with how many there are of each."""
    with box("pw-seg").props(f'role=group aria-label="{label}"') as group:
        for name, word in options.items():
            on = name == chosen
            button = box("pw-on" if on else "", "button")
            button.props(f"type=button aria-pressed={'true' if on else 'false'}")
            button.mark(f"{label.lower()}-{name or 'all'}")
            button.on("click", lambda _, name=name: choose(name))
            with button:
                text(word)
                if counts is not None:
                    text(str(counts.get(name or "all", 0)), "n")
    return group


def trouble(message: str) -> None:
    """What went wrong, in the service's own words."""
    with box("pw-note pw-bad-note").props("role=alert"):
        icon("sym_o_error", "pw-bad")
        text(message, "pw-break")


def named(select: ui.select, name: str) -> ui.select:
    """A select that readers of the screen know by `name`; Quasar takes it from its label alone."""
    select.props["label"] = name
    return select.classes("pw-named")


def hint(message: str) -> None:
    """Something to know before acting."""
    with box("pw-note pw-gap"):
        icon("sym_o_info")
        text(message, "pw-break")


def column(name: str, label: str, align: str = "left", classes: str = "") -> dict[str, str]:
    """A column of a table whose head looks like its cells."""
    return {
        "name": name,
        "label": label,
        "field": name,
        "align": align,
        "classes": classes,
        "headerClasses": classes,
    }
