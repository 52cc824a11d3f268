"""The tab Evaluations: every version on every suite, beside the last gate's claim."""

from typing import Any

from nicegui import ui

from app.shapes import Interval, RunDetail, Score, VersionScores
from pages import words
from pages.claim import ClaimCard
from pages.live import Panel, Part
from pages.parts import box, card, icon, text
from pages.place import Place
from pages.run_view import RunView

Key = tuple[str, str, str]  # suite, split, protocol: only within one of these are scores compared


def panels(view: RunView, place: Place) -> list[Part]:
    """Draw the tab; the panels that the page refreshes."""
    with box("pw-cols2"):
        matrix = Panel(lambda: _matrix_card(view.detail), lambda: _matrix_shows(view.detail))
        claim = ClaimCard(view, place)
    return [matrix, claim]


def _matrix_shows(run: RunDetail) -> object:
    return (run.versions, run.best_version, run.change, [r.gate for r in run.rounds])


def _matrix_card(run: RunDetail) -> None:
    with card("Versions by suite", "mean, change against base, 95% interval, n, coverage") as head:
        protocol = next((s.protocol_hash for s in _scores(run) if s.split == "dev"), None)
        if protocol:
            with head:
                box("pw-grow")
                with box("pw-chip", "span").props(f'title="dev protocol {protocol}"'):
                    icon("sym_o_lock")
                    text(f"protocol {protocol[:4]}")
        if not _scores(run):
            text("Nothing was evaluated yet.", "pw-quiet", "div")
            return
        _matrix(run)


def _matrix(run: RunDetail) -> None:
    keys = columns_of(run)
    columns = [{"name": "version", "label": "Version", "field": "version", "align": "left"}]
    for number, key in enumerate(keys):
        name = f"c{number}"
        columns.append({"name": name, "label": label(run, key), "field": name, "align": "left"})
    changes = paired_changes(run)
    rows = [row(run, version, keys, changes) for version in ordered(run.versions)]
    table = ui.table(rows=rows, columns=columns, row_key="version")
    table.props("flat dense wrap-cells hide-pagination").classes("pw-mx pw-scroll")
    table.add_slot("body-cell", f'<q-td :props="props" style="min-width: 128px">{CELL}</q-td>')
    table.add_slot("body-cell-version", f'<q-td :props="props">{VERSION}</q-td>')


def ordered(versions: list[VersionScores]) -> list[VersionScores]:
    """The baseline first, candidates in the order of their rounds."""
    return sorted(versions, key=lambda version: version.role != "baseline")


def columns_of(run: RunDetail) -> list[Key]:
    """One column for each suite and split under one protocol: dev, blind, held out, guard.

    Blind tasks are new in each round; the newest round is shown, earlier ones are in the ledger.
    """
    order = {"dev": 0, "blind": 1, "held_out": 2, "guard": 3}
    found = {key_of(score): score.round for score in reversed(_scores(run))}
    newest = max((round_ for key, round_ in found.items() if key[1] == "blind"), default=0)
    shown = [key for key, round_ in found.items() if key[1] != "blind" or round_ == newest]
    return sorted(shown, key=lambda key: (order.get(key[1], 9), found[key], key))


def label(run: RunDetail, key: Key) -> str:
    """ "arith · dev"; a split that is drawn anew each round says which round."""
    suite, split, _ = key
    rounds = sorted({score.round for score in _scores(run) if key_of(score) == key})
    name = split.replace("_", " ")
    same_split = {k for k in columns_of_split(run, suite, split)}
    round_text = f", round {rounds[-1]}" if split == "blind" or len(same_split) > 1 else ""
    return f"{suite} · {name}{round_text}" if suite != split else f"{name}{round_text}"


def columns_of_split(run: RunDetail, suite: str, split: str) -> set[Key]:
    """The protocols under which one split of one suite was measured."""
    return {key_of(s) for s in _scores(run) if (s.suite, s.split) == (suite, split)}


def key_of(score: Score) -> Key:
    return (score.suite, score.split, score.protocol_hash)


def paired_changes(run: RunDetail) -> dict[tuple[str, str], Interval]:
    """(version, split) -> paired difference against the baseline, where the run has measured it.

    Only these may be coloured; every other change is plain arithmetic of two means.
    """
    found: dict[tuple[str, str], Interval] = {}
    base = next((v.version for v in run.versions if v.role == "baseline"), None)
    for done in run.rounds:
        if done.candidate is None:
            continue
        if done.dev_change is not None:
            found[done.candidate, "dev"] = done.dev_change
        if done.start_version != base:
            continue
        measured = {
            "blind": done.gate.difference if done.gate else None,
            "held_out": difference_in(done.held_out),
            "guard": difference_in(done.guard),
        }
        found |= {(done.candidate, split): d for split, d in measured.items() if d is not None}
    return found


def difference_in(measured: dict[str, Any] | None) -> Interval | None:
    """The paired difference inside a round's held-out or guard record."""
    found = (measured or {}).get("difference")
    if isinstance(found, Interval):
        return found
    return Interval.model_validate(found) if isinstance(found, dict) else None


def row(
    run: RunDetail,
    version: VersionScores,
    keys: list[Key],
    changes: dict[tuple[str, str], Interval],
) -> dict[str, Any]:
    """One version: a cell for each column, or None where it was not measured."""
    cells: dict[str, Any] = {
        "version": version.version,
        "baseline": version.role == "baseline",
        "best": version.version == run.best_version and version.role != "baseline",
        "simulated": version.simulated,
        "rows": f"{words.count(version.trained_rows)} rows" if version.trained_rows else "",
        "about": f"version {version.version_hash}, adapter {version.adapter or 'none'}",
    }
    base = next((v for v in run.versions if v.role == "baseline"), None)
    for number, key in enumerate(keys):
        score = next((s for s in version.scores if key_of(s) == key), None)
        before = next((s for s in base.scores if key_of(s) == key), None) if base else None
        paired = changes.get((version.version, key[1]))
        cells[f"c{number}"] = cell(score, None if version is base else before, paired)
    return cells


def cell(
    score: Score | None, before: Score | None, paired: Interval | None
) -> dict[str, Any] | None:
    """What one cell of the matrix shows; positions are percent of a line from 0 to 1."""
    if score is None or score.mean is None:
        return None
    gain = None
    if before is not None and before.mean is not None:
        gain = score.mean - before.mean
        if paired is not None and paired.mean is not None:
            gain = paired.mean  # of the common tasks alone
    told = gain is not None and words.excludes_zero(paired)
    low = score.mean if score.ci_low is None else score.ci_low
    high = score.mean if score.ci_high is None else score.ci_high
    return {
        "mean": words.score(score.mean),
        "change": "" if gain is None else words.signed(gain),
        "tone": ("pw-good" if (gain or 0) > 0 else "pw-bad") if told else "",
        "arrow": "sym_o_arrow_drop_up" if (gain or 0) > 0 else "sym_o_arrow_drop_down",
        "band": f"left: {100 * low:.1f}%; width: {100 * (high - low):.1f}%",
        "mark": f"left: {100 * score.mean:.1f}%",
        "interval": words.interval(score.ci_low, score.ci_high),
        "counts": f"n {words.count(score.n)} · {words.percent(score.coverage)}",
        "about": f"{score.n} of {score.planned} scored, missing counted as wrong: "
        f"{words.score(score.conservative)}, protocol {score.protocol_hash}",
    }


def _scores(run: RunDetail) -> list[Score]:
    return [score for version in ordered(run.versions) for score in version.scores]


CELL = """
<div v-if="props.value" class="pw-cell" :title="props.value.about">
  <div class="pw-row pw-between"><span class="pw-cell-mean">{{ props.value.mean }}</span>
    <span v-if="props.value.change" class="pw-small pw-nowrap"
      :class="props.value.tone || 'pw-faint'"><q-icon v-if="props.value.tone"
      :name="props.value.arrow" class="pw-tri" aria-hidden="true"></q-icon>{{ props.value.change
      }}</span></div>
  <div class="pw-ci" :class="props.row.baseline ? '' : 'pw-a'" aria-hidden="true">
    <u :style="props.value.band"></u><b :style="props.value.mark"></b></div>
  <div class="pw-l2"><span class="pw-nowrap">{{ props.value.interval }}</span>
    <span class="pw-nowrap"> · {{ props.value.counts }}</span></div>
</div>
<span v-else class="pw-faint">—</span>
"""
VERSION = """
<div :title="props.row.about"><span class="pw-strong pw-nowrap">{{ props.row.version }}</span>
  <div class="pw-row pw-l2 pw-wrap pw-tags">
    <span v-if="props.row.baseline" class="pw-chip">baseline</span>
    <span v-if="props.row.best" class="pw-chip pw-best">
      <q-icon name="sym_o_verified" aria-hidden="true"></q-icon>best</span>
    <span v-if="props.row.simulated" class="pw-state pw-sim">
      <q-icon name="sym_o_science" aria-hidden="true"></q-icon>Simulated</span>
    <span v-if="props.row.rows" class="pw-nowrap">{{ props.row.rows }}</span>
  </div></div>
"""
