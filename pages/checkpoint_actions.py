"""What people do with a checkpoint: take it away, look at its files, deploy it, delete it."""

import asyncio
from typing import Any

from nicegui import ui

from app.caller import Caller
from app.errors import InUse, ServiceError
from app.job_shapes import CheckpointDownload, CheckpointItem, Deletion
from pages import words
from pages.acting import Acting
from pages.checkpoints_table import name_of
from pages.deploy import deploy, of_checkpoint
from pages.parts import box, text
from pages.request import request
from pages.settings_parts import buttons, cell, dialog, sheet

ACTIONS = frozenset({"download", "files", "deploy", "delete"})


async def act(
    acting: Acting, asked: dict[str, Any], items: list[CheckpointItem], called: str | None = None
) -> None:
    """A choice in a row's menu; the reference that came from the browser is one of `items`, or nothing."""
    action, key = asked.get("action"), str(asked.get("key"))
    item = next((one for one in items if one.tinker_path == key), None)
    caller = acting.visitor.still()
    if item is None or caller is None or action not in ACTIONS:
        return
    try:
        if action == "deploy":
            await deploy(acting, of_checkpoint(item, called))
        elif action == "delete":
            await _delete(acting, caller, item)
        else:
            links = await asyncio.to_thread(
                acting.service.checkpoint_links, caller, "", item.tinker_path, item.job_id
            )
            _take(str(action), item, links)
    except ServiceError as error:
        ui.notify(str(error), type="negative")


def _take(action: str, item: CheckpointItem, links: CheckpointDownload) -> None:
    if action == "download":
        ui.navigate.to(links.zip)
        return
    with dialog(f"Files of {name_of(item)}", "pw-dialog-wide") as (opened, _):
        text("Each with its SHA-256; the links are good for a quarter of an hour.", "pw-2", "p")
        with sheet(["File", "Size", "SHA-256"], "Files"):
            for file in item.files:
                with box(tag="tr"):
                    with box(tag="td"):
                        ui.link(file.name, links.urls[file.name])
                    cell(words.size(file.size_bytes))
                    cell(file.sha256, "pw-mono")
        with box("pw-row pw-foot"):
            ui.button("Close", color=None, on_click=opened.close).props("no-caps outline")


async def _delete(acting: Acting, caller: Caller, item: CheckpointItem) -> None:
    """Tell what would go before anything does; what is in use cannot go, and the reason is told."""
    try:
        trial = await asyncio.to_thread(
            acting.service.delete_checkpoint, caller, item.checkpoint_id, True
        )
    except InUse as refused:
        _kept(item, str(refused))
        return
    with acting.place:
        _confirm(acting, item, trial)


def _kept(item: CheckpointItem, why: str) -> None:
    with dialog(f"{name_of(item)} stays") as (opened, _):
        text(why, "pw-2 pw-break", "p")
        with box("pw-row pw-foot"):
            ui.button("Close", color=None, on_click=opened.close).props("no-caps outline")


def _confirm(acting: Acting, item: CheckpointItem, trial: Deletion) -> None:
    with dialog(f"Delete {name_of(item)}?") as (opened, note):
        with box("pw-points", "ul"):
            for line in delete_lines(item, trial):
                text(line, tag="li")

        def call(caller: Caller) -> None:
            acting.service.delete_checkpoint(caller, item.checkpoint_id)

        buttons(opened, "Delete", request(acting, opened, note, call), negative=True)


def delete_lines(item: CheckpointItem, trial: Deletion) -> list[str]:
    """What goes and what stays, as the trial run found it."""
    freed = f"{words.size(trial.freed_bytes)} in {words.several(len(item.files), 'file')}"
    shared = f"{', '.join(trial.names)} have the same weights: all of them lose them."
    return [
        f"The weights are gone for good: {freed}.",
        "Versions, evaluations and all evidence stay; they can be read, but not deployed or resumed.",
        *([shared] if len(trial.names) > 1 else []),
    ]
