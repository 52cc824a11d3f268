"""The table of jobs: two-line rows on a wide screen, cards on a narrow one."""

from typing import Any

from nicegui import ui

from app.caller import Caller
from app.job_shapes import JobItem
from app.job_status import ACTIVE
from pages import states, words
from pages.list_table import list_table
from pages.parts import column
from pages.spans import seconds_between
from pages.templates import PILL, REASON, ROW_MENU, RUN_LINK, SIMULATED, TIME

TYPES = {"train": "Training", "inference": "Inference", "agent": "Agent", "sandbox": "Sandbox"}


def jobs_table(rows: list[dict[str, Any]]) -> ui.table:
    """One page of the list; a choice in a row's menu is the event `act`."""
    return list_table(rows, COLUMNS, CELLS, CARD).classes("pw-menu-last")


def row(job: JobItem, caller: Caller) -> dict[str, Any]:
    """Everything that a row shows, ready to be read."""
    sign = states.of(states.JOBS, job.status)
    training = job.training
    return {
        "key": job.job_id,
        "name": job.job_id,
        "sub": about(job),
        "type": type_of(job),
        "word": sign.word,
        "css": sign.css,
        "icon": sign.icon,
        "reason": job.reason or "",
        "simulated": bool(training and training.simulated),
        "run": label(job, "run") or "",
        "round": f"round {label(job, 'round')}" if label(job, "round") else "",
        "model": model(job) or words.DASH,
        "created": job.created_at,
        "over": job.finished_at is not None,
        "took": words.duration(seconds_between(job.created_at, job.finished_at)),
        "menu": menu(job, caller),
    }


def menu(job: JobItem, caller: Caller) -> list[dict[str, str]]:
    """What can be done with a job here."""
    offered = [{"action": "open", "word": "Open", "icon": "sym_o_open_in_full", "why": ""}]
    if job.status in ACTIVE and "training.stop" in caller.capabilities:
        why = "It stops already." if job.status == "cancelling" else ""
        stop = {"action": "stop", "word": "Stop…", "icon": "sym_o_stop_circle", "why": why}
        offered.append(stop)
    return offered


def label(job: JobItem, name: str) -> str | None:
    """A label of a training job, the generic key before the loop's own."""
    tags = job.training.tags if job.training else {}
    return tags.get(f"agent_{name}") or tags.get(f"rsi_{name}")


def type_of(job: JobItem) -> str:
    """The type in a word; an adapter that was brought here was trained elsewhere."""
    tags = job.training.tags if job.training else {}
    brought = tags.get("source") == "import" and "imported" in tags
    return "Import" if brought else TYPES.get(job.type, job.type)


def about(job: JobItem) -> str:
    """What the job is for, in its own words."""
    if job.type == "train":
        if job.training and job.training.bookkeeping:
            return "a round without training"
        return job.name or label(job, "purpose") or "by hand"
    return job.inference.state if job.inference is not None else TYPES.get(job.type, job.type)


def model(job: JobItem) -> str | None:
    """The base model or deployed version that the job is about."""
    if job.inference is not None:
        return job.inference.model
    return job.training.base_model if job.training else None


COLUMNS = [
    column("job", "Job"),
    column("status", "Status"),
    column("run", "Run"),
    column("model", "Model"),
    column("created", "Created"),
    column("menu", "", "right"),
]
LINK = (
    '<a class="pw-strong pw-ell pw-name" :title="props.row.name" '
    ":href=\"'jobs/' + encodeURIComponent(props.row.key)\">{{ props.row.name }}</a>"
)
SUB = '<span class="pw-l2">{{ props.row.sub }}</span>'
STATUS = PILL.format("props.row", "props.row.word")
CREATED = TIME.format("props.row.created")
CELLS = {
    "job": f'{LINK}<span class="pw-l2">{{{{ props.row.type }}}} · {{{{ props.row.sub }}}}</span>',
    "status": f'<div class="pw-row" style="gap: 6px">{STATUS}{SIMULATED}</div>{REASON}',
    "run": f'{RUN_LINK}<span class="pw-l2">{{{{ props.row.round }}}}</span>',
    "model": '<span class="pw-nowrap">{{ props.row.model }}</span>',
    "created": (
        f'<span class="pw-2 pw-nowrap">{CREATED}</span>'
        '<span v-if="props.row.over" class="pw-l2 pw-nowrap">took {{ props.row.took }}</span>'
    ),
    "menu": ROW_MENU,
}
CARD = (
    '<div class="pw-rcard"><div class="pw-row pw-between pw-wrap">'
    f'{LINK}<span class="pw-row" style="gap: 6px">{SIMULATED}{STATUS}{ROW_MENU}</span></div>'
    f'{SUB}<span v-if="props.row.reason" class="pw-l2 pw-break">{{{{ props.row.reason }}}}</span>'
    '<div class="pw-three"><div><span class="pw-l2">Type</span>{{ props.row.type }}</div>'
    f'<div v-if="props.row.run"><span class="pw-l2">Run</span>{RUN_LINK}</div>'
    '<div v-else><span class="pw-l2">Model</span>'
    '<span class="pw-break">{{ props.row.model }}</span></div>'
    '<div><span class="pw-l2">Took</span>{{ props.row.took }}</div></div>'
    f'<span class="pw-l2">{CREATED}</span></div>'
)
