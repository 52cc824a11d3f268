"""The table of checkpoints: what was trained, by which run, on which base, how large."""

from typing import Any

from nicegui import ui

from app.caller import Caller
from app.job_shapes import CheckpointItem
from pages import words
from pages.list_table import list_table
from pages.parts import column
from pages.templates import ROW_MENU, RUN_LINK, SIMULATED, TIME


def checkpoints_table(rows: list[dict[str, Any]]) -> ui.table:
    """One page of the list; a choice in a row's menu is the event `act`."""
    return list_table(rows, COLUMNS, CELLS, CARD).classes("pw-menu-last")


def row(item: CheckpointItem, caller: Caller) -> dict[str, Any]:
    """Everything that a row shows; its key is the reference that names this checkpoint alone."""
    run = run_of(item)
    return {
        "key": item.tinker_path,
        "name": name_of(item),
        "version": version_of(item),
        "hash": words.short_hash(item.checkpoint_id),
        "id": item.checkpoint_id,
        "run": run or "",
        "job": item.job_id,
        "base": item.base_model,
        "simulated": bool(item.simulated),
        "size": words.size(size_of(item)),
        "files": words.several(len(item.files), "file"),
        "created": item.created_at,
        "menu": menu(item, caller),
    }


def menu(item: CheckpointItem, caller: Caller) -> list[dict[str, str]]:
    """What can be done with a checkpoint; a viewer takes it away and no more."""
    found = [("download", "Download as zip", "sym_o_download"), ("files", "Files…", "sym_o_list")]
    if "deploy" in caller.capabilities:
        if not item.simulated:  # which has no weights
            found.append(("deploy", "Deploy…", "sym_o_rocket_launch"))
        found.append(("delete", "Delete…", "sym_o_delete"))
    return [{"action": a, "word": word, "icon": icon, "why": ""} for a, word, icon in found]


def version_of(item: CheckpointItem) -> str:
    """The name of its version, such as candidate-1."""
    return item.tinker_checkpoint_id.removeprefix("weights/")


def run_of(item: CheckpointItem) -> str | None:
    """The run that trained it; None where a job without a loop did."""
    return item.training_run_id if item.training_run_id != item.job_id else None


def name_of(item: CheckpointItem) -> str:
    """What people call it: arith-carry-1/candidate-1."""
    run = run_of(item)
    return f"{run}/{version_of(item)}" if run else version_of(item)


def size_of(item: CheckpointItem) -> int:
    """Bytes of all its files."""
    return sum(file.size_bytes for file in item.files)


COLUMNS = [
    column("version", "Version"),
    column("run", "Run"),
    column("base", "Base model"),
    column("job", "Job"),
    column("size", "Size", "right"),
    column("created", "Created"),
    column("menu", "", "right"),
]
JOB = (
    '<a class="pw-nowrap" :href="\'jobs/\' + encodeURIComponent(props.row.job)">'
    "{{ props.row.job }}</a>"
)
HASH = '<span class="pw-l2 pw-mono" :title="props.row.id">{{ props.row.hash }}</span>'
CREATED = TIME.format("props.row.created")
CELLS = {
    "version": '<div class="pw-row"><span class="pw-strong pw-nowrap">{{ props.row.version }}</span>'
    f"{SIMULATED}</div>{HASH}",
    "run": RUN_LINK,
    "base": '<span class="pw-nowrap">{{ props.row.base }}</span>',
    "job": JOB,
    "size": '<span class="pw-nowrap">{{ props.row.size }}</span>'
    '<span class="pw-l2">{{ props.row.files }}</span>',
    "created": f'<span class="pw-2 pw-nowrap">{CREATED}</span>',
    "menu": ROW_MENU,
}
CARD = (
    '<div class="pw-rcard"><div class="pw-row pw-between">'
    '<span class="pw-strong pw-break">{{ props.row.name }}</span>'
    f'<span class="pw-row">{SIMULATED}{ROW_MENU}</span></div>{HASH}'
    '<div class="pw-three"><div><span class="pw-l2">Base model</span>{{ props.row.base }}</div>'
    f'<div><span class="pw-l2">Job</span>{JOB}</div>'
    '<div><span class="pw-l2">Size</span>{{ props.row.size }}</div></div>'
    f'<span class="pw-l2">{CREATED}</span></div>'
)
