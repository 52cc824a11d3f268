"""The table of runs: two-line rows on a wide screen, cards on a narrow one."""

from typing import Any

from nicegui import ui

from app.caller import Caller
from app.shapes import RunSummary
from pages import parts, states, words
from pages.list_table import list_table
from pages.offers import offers
from pages.templates import PILL, SIMULATED, TIME

MENU = frozenset({"stop", "resume", "new", "deploy"})


def runs_table(rows: list[dict[str, Any]], *, all_columns: bool) -> ui.table:
    """One page of the list; with `all_columns` nothing is hidden on a narrow screen.

    A choice in a row's menu is the event `act` with the action and the run.
    """
    table = list_table(rows, COLUMNS, CELLS, CARD).classes("pw-runs")
    if all_columns:
        del table.classes("pw-all").props[":grid"]
    return table


def row(run: RunSummary, caller: Caller) -> dict[str, Any]:
    """Everything that a row shows, ready to be read; the template only places it."""
    sign = states.of_run(run)
    told = words.excludes_zero(run.change)
    gain = run.change.mean if run.change else None
    share = parts.spend_share(run.spend)
    return {
        "key": run.run,
        "run": run.run,
        "sub": f"{run.domain} · {run.base_model}",
        "word": sign.word,
        "css": sign.css,
        "icon": sign.icon,
        "simulated": run.simulated,
        "dry": run.mode == "dry" and not run.simulated,
        "replay": run.replay,
        "reason": run.activity if run.state in {"starting", "running"} else run.reason,
        "round": f"{run.round} of {run.rounds_target}",
        "done": run.round,
        "total": run.rounds_target if run.rounds_target <= parts.MOST_PIPS else 0,
        "active": run.state == "running",
        "best": run.best_version or words.DASH,
        "score": words.score(run.best_score),
        "change": "" if gain is None else words.signed(gain),
        "tone": ("pw-good" if (gain or 0) > 0 else "pw-bad") if told else "",
        "arrow": "sym_o_arrow_drop_up" if (gain or 0) > 0 else "sym_o_arrow_drop_down",
        "spent": words.usd(run.spend.model_usd),
        "cap": words.usd(run.spend.max_model_cost_usd),
        "width": f"width: {100 * share:.0f}%",
        "full": share >= 0.99,
        "owner": run.owner.actor,
        "updated": run.updated_at,
        "menu": [
            {"action": one.action, "word": one.word, "icon": one.icon, "why": one.why_not or ""}
            for one in offers(run, caller)
            if one.action in MENU
        ],
    }


COLUMNS = [
    parts.column("run", "Run"),
    parts.column("state", "State"),
    parts.column("round", "Round"),
    parts.column("best", "Best version", classes="pw-extra"),
    parts.column("score", "Best score", align="right"),
    parts.column("spend", "Model spend", align="right"),
    parts.column("owner", "Owner", classes="pw-extra"),
    parts.column("updated", "Last update"),
    parts.column("menu", "", "right"),
]

LINK = '<a class="pw-strong pw-nowrap" :href="\'runs/\' + encodeURIComponent(props.row.run)">{{ props.row.run }}</a>'
STATE = PILL.format("props.row", "props.row.word")
CHIPS = (
    f'{SIMULATED}<span v-if="props.row.dry" class="pw-chip">Dry run</span>'
    '<span v-if="props.row.replay" class="pw-chip">Replay</span>'
)
REASON = '<span class="pw-l2" :title="props.row.reason">{{ props.row.reason || "—" }}</span>'
SPEND = '{{ props.row.spent }} <span class="pw-faint">of {{ props.row.cap }}</span>'
UPDATED = TIME.format("props.row.updated")
CHANGE = (
    '<span v-if="props.row.change" class="pw-l2" :class="props.row.tone">'
    '<q-icon v-if="props.row.tone" :name="props.row.arrow" class="pw-tri" aria-hidden="true">'
    "</q-icon>{{ props.row.change }}</span>"
)
# The link inside is what a middle click or a reader of the screen needs; actions are events.
ROW_MENU = (
    '<q-btn flat dense icon="sym_o_more_vert" class="pw-flat pw-sm" '
    ':aria-label="\'Actions of \' + props.row.run"><q-menu auto-close anchor="bottom right" '
    'self="top right"><q-list dense>'
    '<q-item clickable tag="a" class="pw-item" '
    ":href=\"'runs/' + encodeURIComponent(props.row.run)\">"
    '<q-icon name="sym_o_open_in_full" aria-hidden="true"></q-icon><span>Open</span></q-item>'
    '<q-item v-for="one in props.row.menu" :key="one.action" clickable class="pw-item" '
    ':disable="one.why !== \'\'" :title="one.why" '
    "@click=\"$parent.$emit('act', {action: one.action, run: props.row.run})\">"
    '<q-icon :name="one.icon" aria-hidden="true"></q-icon><span>{{ one.word }}</span></q-item>'
    "</q-list></q-menu></q-btn>"
)

CELLS = {
    "run": f'{LINK}<span class="pw-l2 pw-nowrap">{{{{ props.row.sub }}}}</span>',
    "state": f'<div class="pw-row" style="gap: 6px">{STATE}{CHIPS}</div>'
    f'<div class="pw-ell pw-reason-cell">{REASON}</div>',
    "round": '<span class="pw-nowrap">{{ props.row.round }}</span>'
    '<div style="line-height: 10px"><span class="pw-pips" aria-hidden="true">'
    '<i v-for="n in props.row.total" :class="props.row.active && n === props.row.done ? \'c\' : '
    "n <= props.row.done ? 'd' : ''\"></i></span></div>",
    "best": '<span class="pw-nowrap">{{ props.row.best }}</span>',
    "score": "{{ props.row.score }}" + CHANGE,
    "spend": f'<span class="pw-nowrap">{SPEND}</span><div class="pw-bar pw-thin" '
    "aria-hidden=\"true\"><i :class=\"props.row.full ? 'pw-full' : ''\" "
    ':style="props.row.width"></i></div>',
    "owner": '<span class="pw-2 pw-nowrap">{{ props.row.owner }}</span>',
    "updated": f'<span class="pw-2 pw-nowrap">{UPDATED}</span>',
    "menu": ROW_MENU,
}

CARD = (
    '<div class="pw-rcard"><div class="pw-row pw-between pw-wrap">'
    f'<span class="pw-row" style="gap: 6px">{LINK}</span>'
    f'<span class="pw-row" style="gap: 6px">{CHIPS}{STATE}{ROW_MENU}</span></div>{REASON}'
    '<div class="pw-three"><div><span class="pw-l2">Round</span>{{ props.row.round }}</div>'
    '<div><span class="pw-l2">Best</span>{{ props.row.best }}'
    "<span v-if=\"props.row.best !== '—'\"> · {{ props.row.score }}</span></div>"
    f'<div><span class="pw-l2">Spend</span>{SPEND}</div></div>'
    f'<span class="pw-l2">{{{{ props.row.owner }}}} · {UPDATED}</span></div>'
)
