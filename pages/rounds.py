"""The tab Rounds: the ledger, newest first, each round with what it did and why."""

from datetime import datetime
from typing import Any

from nicegui import ui

from app.shapes import (
    Admission,
    AuditShape,
    Followed,
    Interval,
    MemoryUse,
    RoundShape,
    RunDetail,
)
from pages import states, words
from pages.evaluations import difference_in
from pages.live import Part
from pages.open_table import OpenTable, open_table
from pages.parts import card, column, text
from pages.place import Place
from pages.run_view import RunView
from pages.templates import EXPAND, FIGURE, PILL

COLOURS = 6
LEFT_OUT = {
    "duplicate": "left out: duplicates",
    "enough of the task": "left out: more than two of a task",
    "mastered": "left out by cap: tasks it always gets right",
    "family full": "left out by cap: family full",
}
MOST_REASONS = 6


def panels(view: RunView, _place: Place) -> list[Part]:
    """Draw the tab; the ledger, which the page refreshes."""
    return [OpenTable(lambda: ledger_rows(view.detail), _draw)]


def _draw(rows: list[dict[str, Any]]) -> ui.table | None:
    with card("Rounds", "each against the best before it"):
        if not rows:
            text("No round has started yet.", "pw-quiet", "div")
            return None
        return open_table(rows, COLUMNS, "number", HEADER, BODY, "pw-scroll")


def ledger_rows(run: RunDetail) -> list[dict[str, Any]]:
    """One row for each round, newest first, ready to be read."""
    return [_row(run, one) for one in sorted(run.rounds, key=lambda r: -r.round)]


def _row(run: RunDetail, one: RoundShape) -> dict[str, Any]:
    sign = states.of_round(one.decision, one.outcome)
    return {
        "number": one.round,
        "decision": sign.word,
        "css": sign.css,
        "icon": sign.icon,
        "version": one.candidate or words.DASH,
        "hypothesis": one.hypothesis or words.DASH,
        "dev": _dev_change(run, one),
        "blind": _difference(one.gate.difference if one.gate else None),
        "rows": words.count(one.rows),
        "time": words.duration(_seconds(one)),
        "reason": one.reason or "",
        "summary": one.summary,
        "settings": [*_settings(one.settings), *_memory(one.memory)],
        "reasoning": str(one.settings.get("reasoning") or ""),
        "followed": [_followed(said) for said in one.followed],
        "families": _mix(one.rows_by_family),
        "sources": _mix(one.rows_by_source),
        "admission": _admission(one.admission),
        "results": _results(one),
        "audits": [_audit(audit) for audit in one.audits],
    }


def _followed(said: Followed) -> str:
    how = f": {said.how}" if said.how else ""
    return f"follows the {said.kind} “{said.text}”{how}"


def _dev_change(run: RunDetail, one: RoundShape) -> dict[str, str]:
    """Candidate less best on dev, paired; without a pairing the difference of the two means."""
    paired = difference_in(one.dev)
    if paired is not None:
        return _difference(paired)
    means = {v.version: s.mean for v in run.versions for s in v.scores if s.split == "dev"}
    before, after = means.get(one.start_version), means.get(one.candidate or "")
    gain = after - before if before is not None and after is not None else None
    return {"mean": words.signed(gain), "span": ""}


def _difference(difference: Interval | None) -> dict[str, str]:
    if difference is None or difference.mean is None:
        return {"mean": words.DASH, "span": ""}
    return {
        "mean": words.signed(difference.mean),
        "span": words.span(difference.low, difference.high),
    }


def _seconds(one: RoundShape) -> float | None:
    if one.ended_at is None:
        return None
    started, ended = (datetime.fromisoformat(at) for at in (one.started_at, one.ended_at))
    return (ended - started).total_seconds()


def _settings(plan: dict[str, Any]) -> list[dict[str, str]]:
    """The plan as words: planner, method, settings, tasks by family, and what it rests on."""
    families = plan.get("families") or {}
    because = plan.get("because") or []
    lines: dict[str, object] = {
        "Planner": plan.get("planner"),
        "Method": plan.get("method"),
        **{_words(name): value for name, value in (plan.get("settings") or {}).items()},
        "Tasks": {words.family(n): one["tasks"] for n, one in families.items() if one.get("tasks")},
        "Rests on": _reasons(because),
        "Note": plan.get("note"),
    }
    told = {term: value for term, value in lines.items() if value not in (None, {}, [])}
    return [{"term": term, "value": words.one_line(value)} for term, value in told.items()]


def _memory(found: MemoryUse | None) -> list[dict[str, str]]:
    """The most memory that the round's training took."""
    if found is None:
        return []
    where = "main memory" if found.on == "cpu" else "the card"
    value = f"{words.size(found.peak_bytes)} of {where}, measured"
    return [{"term": "Memory at its peak", "value": value}]


def _reasons(because: list[dict[str, Any]]) -> str | None:
    """The measured failures that say most: the most wrong answers first."""
    whole = [one for one in because if {"family", "difficulty", "right", "n"} <= one.keys()]
    worst = sorted(whole, key=lambda one: one["right"] - one["n"])[:MOST_REASONS]
    told = [
        f"{words.family(one['family'])}, {one['difficulty']}: {one['right']} of {one['n']} right"
        for one in worst
    ]
    more = len(whole) - len(worst)
    return "; ".join([*told, *([f"and {more} more"] if more else [])]) or None


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _mix(counts: dict[str, int]) -> list[dict[str, str]]:
    """Rows by family or source, the largest first, with a share and a colour each."""
    total = sum(counts.values())
    largest_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        {
            "name": words.family(name),
            "count": words.count(number),
            "share": f"{100 * number / total:.0f}%" if total else words.DASH,
            "width": f"flex: {number}; background: var(--pw-series-{index % COLOURS + 1})",
            "colour": f"background: var(--pw-series-{index % COLOURS + 1})",
        }
        for index, (name, number) in enumerate(largest_first)
    ]


def _admission(found: Admission | None) -> list[dict[str, str]]:
    """The way from planned tasks to rows, each step with what it left out."""
    if found is None:
        return []
    lines: list[tuple[str, int | None]] = [
        ("Tasks planned", found.planned),
        ("Asked of the student", found.asked),
        ("Right answers, own or helped", found.candidates),
        *((LEFT_OUT.get(why, why), -count) for why, count in found.left_out.items()),
        ("New rows", found.new_rows),
        ("Replay rows", found.replay_rows),
        ("Rows of earlier rounds", found.earlier_rows),
    ]
    return [
        {"term": term, "value": words.count(number).replace("-", words.MINUS)}
        for term, number in lines
    ]


def _results(one: RoundShape) -> list[dict[str, str]]:
    measured = {
        "Dev": difference_in(one.dev),
        "Blind": one.gate.difference if one.gate else None,
        "Held out": difference_in(one.held_out),
        "Guard": difference_in(one.guard),
    }
    return [{"name": name, **_difference(found)} for name, found in measured.items()]


def _audit(audit: AuditShape) -> dict[str, str]:
    sign = states.of(states.AUDITS, audit.verdict)
    reason = audit.reasons[0] if audit.reasons else words.DASH
    return {
        "word": sign.word,
        "css": sign.css,
        "icon": sign.icon,
        "type": audit.type.replace("_", " "),
        "reason": reason,
    }


COLUMNS = [
    column("number", "Round", "right"),
    column("decision", "Decision"),
    column("version", "Version"),
    column("hypothesis", "Hypothesis", classes="pw-desk"),
    column("dev", "Dev change", classes="pw-desk"),
    column("blind", "Blind change", classes="pw-desk"),
    column("rows", "Rows", "right", "pw-desk"),
    column("time", "Time", "right", "pw-desk"),
]

HEADER = """
<q-tr :props="props"><q-th auto-width></q-th>
  <q-th v-for="col in props.cols" :key="col.name" :props="props">{{ col.label }}</q-th></q-tr>
"""
MIX = """
<div v-if="props.row.{0}.length"><div class="pw-bar pw-mix" aria-hidden="true">
  <i v-for="part in props.row.{0}" :style="part.width"></i></div>
  <div v-for="part in props.row.{0}" class="pw-row pw-between" style="padding: 2px 0">
    <span class="pw-row"><i class="pw-swatch" :style="part.colour"></i>{{{{ part.name }}}}</span>
    <span class="pw-nowrap">{{{{ part.count }}}} <span class="pw-2">{{{{ part.share }}}}</span></span>
  </div></div>
<div v-else class="pw-faint">—</div>
"""
ADMISSION = """
<h3 class="pw-h3">From tasks to rows</h3>
<dl class="pw-kv pw-tight" v-if="props.row.admission.length">
  <template v-for="one in props.row.admission"><dt>{{ one.term }}</dt><dd>{{ one.value }}</dd>
  </template></dl>
<div v-else class="pw-faint">—</div>
"""
PLAN = """
<h3 class="pw-h3">Plan</h3><p>{{ props.row.hypothesis }}</p>
<p v-for="said in props.row.followed" class="pw-2 pw-small pw-break">
  <q-icon name="sym_o_near_me" aria-hidden="true"></q-icon> {{ said }}</p>
<p v-if="props.row.reasoning" class="pw-2 pw-small pw-break pw-lines-kept">{{ props.row.reasoning }}</p>
<h3 class="pw-h3" v-if="props.row.settings.length">Settings</h3>
<dl class="pw-kv pw-left pw-tight"><template v-for="one in props.row.settings">
  <dt>{{ one.term }}</dt><dd>{{ one.value }}</dd></template></dl>
"""
OUTCOME = (
    '<h3 class="pw-h3">Outcome</h3><p>{{ props.row.reason || props.row.summary || "—" }}</p>'
    '<h3 class="pw-h3">Candidate less best, paired, 95% interval</h3>'
    '<div v-for="one in props.row.results" class="pw-row pw-between" style="padding: 2px 0">'
    '<span class="pw-2">{{ one.name }}</span>' + FIGURE.format("one") + "</div>"
    '<h3 class="pw-h3">Audits</h3><div v-if="!props.row.audits.length" class="pw-faint">—</div>'
    '<div class="pw-audits"><div v-for="one in props.row.audits" class="pw-audit">'
    + PILL.format("one", "one.word").replace("pw-state", "pw-state pw-plain")
    + '<span>{{ one.type }}</span><span class="pw-2 pw-break">{{ one.reason }}</span></div></div>'
)
BODY = (
    "<q-tr :props=\"props\" :class=\"props.expand ? 'pw-opened' : ''\"><q-td auto-width>"
    + EXPAND.format("'Details of round ' + props.row.number")
    + "</q-td>"
    '<q-td v-for="col in props.cols" :key="col.name" :props="props">'
    "<template v-if=\"col.name === 'decision'\">"
    + PILL.format("props.row", "props.row.decision")
    + "</template><template v-else-if=\"col.name === 'dev' || col.name === 'blind'\">"
    + FIGURE.format("col.value")
    + '</template><div v-else-if="col.name === \'hypothesis\'" class="pw-ell pw-hyp" '
    ':title="col.value">{{ col.value }}</div><template v-else>{{ col.value }}</template></q-td></q-tr>'
    '<q-tr v-if="props.expand" :props="props" class="pw-det" no-hover><q-td colspan="100%">'
    f'<div class="pw-det3"><div>{PLAN}</div><div><h3 class="pw-h3">Rows by family</h3>'
    + MIX.format("families")
    + '<h3 class="pw-h3">Rows by source</h3>'
    + MIX.format("sources")
    + ADMISSION
    + f"</div><div>{OUTCOME}</div></div></q-td></q-tr>"
)
