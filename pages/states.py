"""Which word, class and icon stand for a state, a decision, an audit or an event."""

from typing import NamedTuple

from app.shapes import RunSummary


class Sign(NamedTuple):
    """A word with its icon; `css` colours it: pw-run, pw-ok, pw-att, pw-err, or "" for grey."""

    word: str
    css: str
    icon: str


ENDED = frozenset({"finished", "failed", "stopped", "unreadable"})

STARTING = Sign("Starting", "", "sym_o_hourglass_top")
RUNNING = Sign("Running", "pw-run", "sym_o_play_circle")
STOPPING = Sign("Stopping", "pw-run", "sym_o_stop_circle")
PAUSED_FOR_PERSON = Sign("Paused for a person", "pw-att", "sym_o_person")
PAUSED = Sign("Paused", "pw-att", "sym_o_pause_circle")
STOPPED_BY_CAP = Sign("Stopped by cap", "pw-att", "sym_o_payments")
STOPPED = Sign("Stopped", "", "sym_o_stop_circle")
FINISHED = Sign("Finished", "pw-ok", "sym_o_check_circle")
FAILED = Sign("Failed", "pw-err", "sym_o_error")
UNREADABLE = Sign("Unreadable", "pw-err", "sym_o_broken_image")
SIMULATED = Sign("Simulated", "pw-sim", "sym_o_science")

DECISIONS = {
    "promote": Sign("promote", "pw-ok", "sym_o_task_alt"),
    "reject": Sign("reject", "", "sym_o_do_not_disturb_on"),
    "inconclusive": Sign("inconclusive", "pw-att", "sym_o_remove"),
    "not_evaluated": Sign("not evaluated", "", "sym_o_radio_button_unchecked"),
}
OUTCOMES = {
    "failed": Sign("failed", "pw-err", "sym_o_error"),
    "stopped": Sign("stopped", "", "sym_o_stop_circle"),
}
UNDER_WAY = Sign("running", "pw-run", "sym_o_play_circle")

AUDITS = {
    "approved": Sign("approved", "pw-ok", "sym_o_check_circle"),
    "rejected": Sign("rejected", "pw-err", "sym_o_cancel"),
    "error": Sign("error", "pw-err", "sym_o_error"),
    "not_applicable": Sign("not applicable", "", "sym_o_remove"),
}
STEERS = {
    "queued": Sign("queued", "pw-warn", "sym_o_schedule"),
    "delivered": Sign("delivered", "pw-good", "sym_o_done"),
    "dropped": Sign("dropped", "pw-bad", "sym_o_cancel"),
}
JOBS = {
    "queued": Sign("queued", "", "sym_o_schedule"),
    "pending": Sign("pending", "", "sym_o_schedule"),
    "starting": Sign("starting", "", "sym_o_hourglass_top"),
    "running": Sign("running", "pw-run", "sym_o_play_circle"),
    "recovering": Sign("recovering", "pw-att", "sym_o_healing"),
    "cancelling": Sign("cancelling", "pw-run", "sym_o_stop_circle"),
    "completed": Sign("completed", "pw-ok", "sym_o_check_circle"),
    "failed": Sign("failed", "pw-err", "sym_o_error"),
    "cancelled": Sign("cancelled", "", "sym_o_stop_circle"),
}
ENDPOINTS = {
    "asleep": Sign("Asleep", "", "sym_o_bedtime"),
    "waking": Sign("Waking", "pw-run", "sym_o_hourglass_top"),
    "ready": Sign("Ready", "pw-ok", "sym_o_check_circle"),
    "paused": Sign("Paused", "pw-att", "sym_o_pause_circle"),
    "ended": Sign("Ended", "", "sym_o_stop_circle"),
}
EVENT_ICONS = {
    "message": "sym_o_notes",
    "tool_call": "sym_o_build",
    "tool_result": "sym_o_output",
    "steer": "sym_o_near_me",
    "round": "sym_o_flag",
    "job": "sym_o_work",
    "error": "sym_o_error",
}
ROLE_ICONS = {
    "engine": "sym_o_settings",
    "operator": "sym_o_edit_note",
    "teacher": "sym_o_menu_book",
    "student": "sym_o_school",
    "verifier": "sym_o_rule",
    "auditor": "sym_o_policy",
}
UNKNOWN_ICON = "sym_o_radio_button_unchecked"


def of_run(run: RunSummary) -> Sign:
    """The pill of a run; what the wire keeps in `reason` gets a word of its own."""
    reason = (run.reason or "").lower()
    if run.state == "running":
        return STOPPING if run.stop_requested else RUNNING
    if run.state == "paused":
        return PAUSED if "interrupt" in reason or "restart" in reason else PAUSED_FOR_PERSON
    if run.state == "stopped":
        return STOPPED_BY_CAP if "cap" in reason.split() else STOPPED
    known = {"starting": STARTING, "finished": FINISHED, "failed": FAILED, "unreadable": UNREADABLE}
    return known.get(run.state, Sign(run.state.capitalize(), "", UNKNOWN_ICON))


def of_round(decision: str | None, outcome: str | None) -> Sign:
    """The pill of a round: its decision, else how it ended, else that it is under way."""
    if decision is not None:
        return DECISIONS.get(decision, Sign(decision, "", UNKNOWN_ICON))
    return OUTCOMES.get(outcome or "", UNDER_WAY)


def of(signs: dict[str, Sign], value: str) -> Sign:
    """The sign of a value, or the bare word for one that this table does not know."""
    return signs.get(value, Sign(value, "", UNKNOWN_ICON))
