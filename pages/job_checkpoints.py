"""The tab Checkpoints of a job: what it trained, with the same actions as in the list."""

from functools import partial

from nicegui import ui

from pages import words
from pages.acting import Acting
from pages.checkpoint_actions import act
from pages.checkpoints_table import name_of, row, size_of
from pages.job_view import JobView
from pages.parts import box, card, simulated_chip, text


def checkpoints_card(view: JobView, acting: Acting) -> None:
    """One line for each checkpoint, with buttons for what can be done."""
    with card("Checkpoints"):
        if not view.checkpoints:
            text(_none(view), "pw-quiet", "div")
        for item in view.checkpoints:
            with box("pw-rec"):
                with box("pw-row pw-wrap"):
                    text(name_of(item), "pw-strong")
                    if item.simulated:
                        simulated_chip()
                    text(words.short_hash(item.checkpoint_id), "pw-mono pw-faint")
                    text(f"{item.base_model}, {words.size(size_of(item))}", "pw-2")
                with box("pw-row pw-wrap").style("margin-top: 6px"):
                    for one in row(item, view.visitor.caller)["menu"]:
                        asked = {"action": one["action"], "key": item.tinker_path}
                        button = ui.button(one["word"], icon=one["icon"], color=None)
                        button.props("no-caps outline").classes("pw-sm").mark(one["action"])
                        button.on_click(
                            partial(act, acting, asked, view.checkpoints, view.item.name)
                        )


def _none(view: JobView) -> str:
    deleted = view.item.training and view.item.training.checkpoint_deleted_at
    return "What it trained was deleted; its scores stay." if deleted else "It left no checkpoint."
