"""The claim card: what a gate decided, rule by rule, the missing ones first."""

from typing import Any

from nicegui import ui

from app.shapes import Gate, RoundShape, RunDetail
from pages import states, words
from pages.live import Panel
from pages.parts import box, card, change, icon, named, pill, simulated_chip, term, text
from pages.place import Place
from pages.run_view import RunView


class ClaimCard:
    """Reports a gate's evidence with source and coverage; it claims nothing beyond it.

    The newest gate, or an earlier one that the address asks for.
    """

    def __init__(self, view: RunView, place: Place) -> None:
        self._view, self._place = view, place
        self._panel = Panel(self._draw, self._shows)

    def refresh(self) -> None:
        """Show a new gate when there is one, unless an earlier one was chosen."""
        self._panel.refresh()

    def _shows(self) -> object:
        run = self._view.detail
        chosen = _chosen(run, self._place.get("gate"))
        return (chosen, _decided(run), run.spend, [v.version for v in run.versions])

    def _draw(self) -> None:
        run = self._view.detail
        chosen = _chosen(run, self._place.get("gate"))
        if chosen is None or chosen.gate is None:
            _no_gate(run)
            return
        decided = _decided(run)
        number = f" {chosen.round}" if len(decided) == 1 else ""
        with card(f"Claim: gate of round{number}") as head:
            with head:
                if len(decided) > 1:
                    self._choice(chosen.round, decided)
                box("pw-grow")
                if run.simulated:
                    simulated_chip()
                pill(states.of_round(chosen.gate.verdict, None))
            _gate(run, chosen, chosen.gate)

    def _choice(self, number: int, decided: list[int]) -> None:
        select = ui.select(decided, value=number, on_change=lambda event: self._ask(event.value))
        select.props("outlined dense options-dense").classes("pw-choice pw-short").mark("gate")
        named(select, "Gate of round")

    def _ask(self, number: int) -> None:
        newest = number == _decided(self._view.detail)[-1]
        self._place.ask(gate="" if newest else str(number))
        self._panel.refresh()


def _decided(run: RunDetail) -> list[int]:
    """The rounds that have a gate, oldest first."""
    return [one.round for one in run.rounds if one.gate is not None]


def _chosen(run: RunDetail, asked: str) -> RoundShape | None:
    """The round whose gate is shown: the one asked for when it has one, else the newest."""
    gated = [one for one in run.rounds if one.gate is not None]
    wanted = [one for one in gated if str(one.round) == asked]
    found = wanted or gated
    return found[-1] if found else None


def _gate(run: RunDetail, done: RoundShape, gate: Gate) -> None:
    with box("pw-cb"):
        _difference(gate)
        _figures(run, done, gate)
        if gate.reason:
            text(gate.reason, "pw-2 pw-small pw-break", "div").style("margin-top: 8px")
        _rules(gate.checks)
        _source(run, done, gate)


def _no_gate(run: RunDetail) -> None:
    """Nothing was compared on blind tasks: the last round's own words, and no claim."""
    last = next((r for r in reversed(run.rounds) if r.outcome is not None), None)
    with card(f"Claim: none after round {last.round}" if last else "Claim") as head:
        if last is not None:
            with head:
                box("pw-grow")
                pill(states.of_round(last.decision, last.outcome))
        text(last.reason or words.DASH if last else "No gate has decided yet.", "pw-quiet", "div")


def _difference(gate: Gate) -> None:
    """The paired difference, large, on its line."""
    difference = gate.difference
    mean = difference.mean if difference else None
    with box("pw-row").style("align-items: baseline"):
        text(words.signed(mean), "pw-big")
        text(f"blind, over {gate.best}", "pw-2 pw-small")
    if difference is None or difference.low is None or difference.high is None or mean is None:
        return
    reach = max(abs(difference.low), abs(difference.high), 0.05) * 1.15
    start = -reach if difference.low < 0 else 0.0
    width = reach - start
    place = [100 * (end - start) / width for end in (difference.low, mean, difference.high, 0.0)]
    with box("pw-ci pw-a").props("aria-hidden=true").style("margin: 6px 0"):
        if start < 0:
            box(tag="s").style(f"left: {place[3]:.1f}%")
        box(tag="u").style(f"left: {place[0]:.1f}%; width: {place[2] - place[0]:.1f}%")
        box(tag="b").style(f"left: {place[1]:.1f}%")
    text(
        f"95% interval {words.span(difference.low, difference.high)}, paired",
        "pw-2 pw-small",
        "div",
    )


def _figures(run: RunDetail, done: RoundShape, gate: Gate) -> None:
    with box("pw-kv", "dl").style("margin-top: 8px"):
        term(gate.version, words.score(gate.score), "pw-strong")
        best = gate.best_score.mean if gate.best_score else None
        term(f"Best before, {gate.best}", words.score(best))
        text("Against the baseline, on dev", tag="dt")
        with box(tag="dd"):
            change(gate.delta_vs_baseline, done.dev_change)
        term("Common items", words.count(gate.n))
        term("Coverage", words.percent(gate.coverage))
        if gate.fixed is not None and gate.regressed is not None:
            term("Fixed, regressed", f"{words.count(gate.fixed)}, {words.count(gate.regressed)}")
        if gate.p_value is not None:
            alpha = f" (alpha {gate.alpha:.2g})" if gate.alpha is not None else ""
            term("p value", f"{gate.p_value:.2g}{alpha}")


def _rules(checks: list[dict[str, Any]]) -> None:
    """One row for each rule of the gate; what is not met stands first."""
    if not checks:
        return
    with box("pw-lines").props('role=list aria-label="Rules of the gate"'):
        for check in sorted(checks, key=lambda check: check.get("ok") is True):
            ok = check.get("ok")
            with box("pw-line").props("role=listitem"):
                if ok is True:
                    icon("sym_o_check_circle", "pw-good").props('title="met"')
                elif ok is False:
                    icon("sym_o_cancel", "pw-bad").props('title="not met"')
                else:
                    icon("sym_o_help", "pw-warn").props('title="not known"')
                text(str(check.get("name", "")))
                text(words.one_line(check.get("text")), "pw-end pw-small")


def _source(run: RunDetail, done: RoundShape, gate: Gate) -> None:
    """Where the figures come from: protocol, version, seeds, spend."""
    version = next((v for v in run.versions if v.version == gate.version), None)
    scores = version.scores if version else []
    blind = next((s for s in scores if s.split == "blind" and s.round == done.round), None)
    seeds = (
        "random secret, 32 bytes"
        if run.seed is None
        else f"seed {run.seed}: repeatable, its blind tasks follow from it"
    )
    hours = f"{run.spend.device_seconds / 3600:.2f} h device"
    with box("pw-kv pw-tight", "dl").style("margin-top: 12px"):
        term("Protocol", words.short_hash(blind.protocol_hash) if blind else words.DASH, "pw-mono")
        term(
            "Version", words.short_hash(version.version_hash) if version else words.DASH, "pw-mono"
        )
        term("Seeds", seeds)
        term("Spend to here", f"{words.usd(run.spend.model_usd)} model, {hours}")
