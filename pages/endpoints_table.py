"""The table of deployed versions: state, engine, use, address."""

from typing import Any

from nicegui import ui

from app.caller import Caller
from app.job_shapes import JobItem
from pages import states, words
from pages.list_table import list_table
from pages.parts import column
from pages.states import Sign
from pages.templates import PILL, REASON, ROW_MENU, TIME


def endpoints_table(rows: list[dict[str, Any]]) -> ui.table:
    """All that is deployed; a choice in a row's menu is the event `act`."""
    return list_table(rows, COLUMNS, CELLS, CARD)


def row(job: JobItem, caller: Caller, url: str) -> dict[str, Any]:
    """Everything that a row shows; `url` is how the visitor reaches this server."""
    found = job.inference
    assert found is not None
    sign = sign_of(job)
    called = "" if found.name == found.model else f"{found.name} · "
    return {
        "key": job.job_id,
        "name": found.model,
        "sub": f"{called}{found.base_model}",
        "word": sign.word,
        "css": sign.css,
        "icon": sign.icon,
        "reason": job.reason or "",
        "engine": found.engine or words.DASH,
        "calls": f"{words.count(found.calls)} call{'' if found.calls == 1 else 's'}",
        "tokens": f"{words.count(found.tokens_in)} in, {words.count(found.tokens_out)} out",
        "last": found.last_call_at or "",
        "address": f"{url}{found.base_url}",
        "menu": menu(job, caller),
    }


def sign_of(job: JobItem) -> Sign:
    """The pill of a deployed version: what its job is about to do, else its own state."""
    if job.status in ("cancelling", "completed", "failed", "cancelled"):
        return states.of(states.JOBS, job.status)
    return states.of(states.ENDPOINTS, job.inference.state if job.inference else job.status)


def menu(job: JobItem, caller: Caller) -> list[dict[str, str]]:
    """What a visitor with these rights can do with it in its state."""
    state = job.inference.state if job.inference else ""
    found = [("call", "How to call it…", "sym_o_code")]
    if "inference.use" in caller.capabilities:
        found.insert(0, ("chat", "Chat", "sym_o_forum"))
    if "deploy" in caller.capabilities and job.status != "cancelling":
        if state == "paused":
            found.append(("resume", "Resume", "sym_o_play_circle"))
        else:
            if state == "asleep":
                found.append(("wake", "Wake", "sym_o_wb_sunny"))
            found.append(("pause", "Pause…", "sym_o_pause_circle"))
        if "training.stop" in caller.capabilities:
            found.append(("delete", "Delete…", "sym_o_delete"))
    return [{"action": a, "word": word, "icon": icon, "why": ""} for a, word, icon in found]


COLUMNS = [
    column("name", "Version"),
    column("state", "State"),
    column("engine", "Engine"),
    column("use", "Calls, tokens", "right"),
    column("last", "Last call"),
    column("address", "Address"),
    column("menu", "", "right"),
]
NAME = (
    '<a class="pw-strong pw-nowrap" :href="\'inference/\' + encodeURIComponent(props.row.key)">'
    "{{ props.row.name }}</a>"
)
SUB = '<span class="pw-l2 pw-nowrap">{{ props.row.sub }}</span>'
STATE = PILL.format("props.row", "props.row.word")
LAST = f'<template v-if="props.row.last">{TIME.format("props.row.last")}</template><span v-else>—</span>'
# The event knows the window that it happened in, and so the console's own script.
ADDRESS = (
    '<span class="pw-copy pw-copy-line"><span class="pw-code pw-address" '
    ':title="props.row.address">{{ props.row.address }}</span>'
    '<q-btn flat dense icon="sym_o_content_copy" class="pw-flat pw-sm" '
    ":aria-label=\"'Copy the address of ' + props.row.name\" "
    '@click="$event.view.pawl.copy($event)"></q-btn>'
    '<span class="pw-copied pw-small pw-2" hidden role="status">Copied</span></span>'
)
CELLS = {
    "name": NAME + SUB,
    "state": STATE + REASON,
    "engine": '<span class="pw-2 pw-nowrap">{{ props.row.engine }}</span>',
    "use": '<span class="pw-nowrap">{{ props.row.calls }}</span>'
    '<span class="pw-l2 pw-nowrap">{{ props.row.tokens }}</span>',
    "last": f'<span class="pw-2 pw-nowrap">{LAST}</span>',
    "address": ADDRESS,
    "menu": ROW_MENU,
}
CARD = (
    '<div class="pw-rcard"><div class="pw-row pw-between pw-wrap">'
    f'{NAME}<span class="pw-row" style="gap: 6px">{STATE}{ROW_MENU}</span></div>{SUB}'
    '<span v-if="props.row.reason" class="pw-l2 pw-break">{{ props.row.reason }}</span>'
    '<div class="pw-three"><div><span class="pw-l2">Engine</span>{{ props.row.engine }}</div>'
    '<div><span class="pw-l2">Tokens</span>{{ props.row.tokens }}</div>'
    '<div><span class="pw-l2">Calls</span>{{ props.row.calls }}</div></div>'
    f'<div class="pw-row">{ADDRESS}</div>'
    f'<span class="pw-l2">Last call {LAST}</span></div>'
)
