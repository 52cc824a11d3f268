"""The tab Audits: what the independent checks said, newest first, with all their reasons."""

from collections import Counter
from typing import Any

from nicegui import ui

from app.shapes import AuditShape
from pages import states, words
from pages.live import Part
from pages.open_table import OpenTable, Rows, open_table
from pages.parts import box, card, column, text
from pages.place import Place
from pages.run_view import RunView
from pages.templates import EXPAND, PILL, TIME


def panels(view: RunView, _place: Place) -> list[Part]:
    """Draw the tab; the table, which the page refreshes."""
    return [Audits(view)]


class Audits(OpenTable):
    """The table of audits, updated in place so that opened rows stay open."""

    def __init__(self, view: RunView) -> None:
        self._view = view
        super().__init__(lambda: audit_rows(view.detail.audits), self._draw_card, self._count)

    def _count(self) -> None:
        self._counted.text = counted(self._view.detail.audits)

    def _draw_card(self, rows: Rows) -> ui.table | None:
        with card("Audits") as head:
            with head:
                self._counted = text(counted(self._view.detail.audits), "pw-sub")
            if not rows:
                text("No audit has run yet.", "pw-quiet", "div")
                return None
            with box("pw-scroll"):
                return open_table(rows, COLUMNS, "key", HEADER, BODY)


def counted(audits: list[AuditShape]) -> str:
    """How many audits ended how: "12 approved, 1 rejected"."""
    found = Counter(audit.verdict for audit in audits)
    known = [verdict for verdict in states.AUDITS if verdict in found]
    others = sorted(set(found) - set(known))
    return ", ".join(
        f"{words.count(found[verdict])} {states.of(states.AUDITS, verdict).word}"
        for verdict in known + others
    )


def audit_rows(audits: list[AuditShape]) -> list[dict[str, Any]]:
    """One row for each audit, newest first, ready to be read."""
    return [_row(number, audit) for number, audit in reversed(list(enumerate(audits, 1)))]


def _row(number: int, audit: AuditShape) -> dict[str, Any]:
    sign = states.of(states.AUDITS, audit.verdict)
    return {
        "key": number,
        "name": f"{audit.type.replace('_', ' ')}, round {audit.round}",
        "verdict": sign.word,
        "css": sign.css,
        "icon": sign.icon,
        "type": audit.type.replace("_", " "),
        "round": audit.round,
        "version": audit.version or words.DASH,
        "first": audit.reasons[0] if audit.reasons else words.DASH,
        "reasons": audit.reasons,
        "at": audit.at,
    }


COLUMNS = [
    column("round", "Round", "right"),
    column("type", "Audit"),
    column("version", "Version", classes="pw-desk"),
    column("verdict", "Verdict"),
    column("first", "First reason", classes="pw-desk"),
    column("at", "Time", classes="pw-desk"),
]
HEADER = """
<q-tr :props="props"><q-th auto-width></q-th>
  <q-th v-for="col in props.cols" :key="col.name" :props="props">{{ col.label }}</q-th></q-tr>
"""
BODY = (
    "<q-tr :props=\"props\" :class=\"props.expand ? 'pw-opened' : ''\"><q-td auto-width>"
    + EXPAND.format("'Reasons of ' + props.row.name")
    + '</q-td><q-td v-for="col in props.cols" :key="col.name" :props="props">'
    "<template v-if=\"col.name === 'verdict'\">"
    + PILL.format("props.row", "props.row.verdict")
    + '</template><span v-else-if="col.name === \'at\'" class="pw-2">'
    + TIME.format("props.row.at")
    + '</span><div v-else-if="col.name === \'first\'" class="pw-ell pw-first" :title="col.value">'
    "{{ col.value }}</div><template v-else>{{ col.value }}</template></q-td></q-tr>"
    '<q-tr v-if="props.expand" :props="props" class="pw-det" no-hover><q-td colspan="100%">'
    '<div class="pw-reasons"><ol v-if="props.row.reasons.length">'
    '<li v-for="reason in props.row.reasons">{{ reason }}</li></ol>'
    '<p v-else class="pw-faint">No reason was given.</p>'
    '<p class="pw-l2">{{ props.row.version }}, ' + TIME.format("props.row.at") + "</p>"
    "</div></q-td></q-tr>"
)
