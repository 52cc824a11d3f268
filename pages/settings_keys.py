"""Settings, Keys: what keys there are, a new one shown once, revoking."""

from nicegui import ui

from app.access import Access
from app.caller import Caller
from app.keys import PRESETS, KeyInfo
from app.service import Service
from pages import settings_parts as parts
from pages.acting import Acting
from pages.frame import Visitor
from pages.parts import box, icon, text
from pages.request import request

AT = "/settings/keys"
COLUMNS = ["Name", "May", "State", "Made by", "Created", "Last used", "Ends", ""]
ABOUT = {
    "developer": "Read, start, steer and stop runs, use and deploy versions.",
    "viewer": "Read runs, jobs and evidence; change nothing.",
}
LIVES = {0: "Never", 30: "In 30 days", 90: "In 90 days", 365: "In a year"}
STATES = {
    "active": ("pw-ok", "sym_o_check_circle", "Active"),
    "expired": ("", "sym_o_schedule", "Expired"),
    "revoked": ("", "sym_o_block", "Revoked"),
}


def keys_page(visitor: Visitor, service: Service, access: Access) -> None:
    """Build the page for one visitor."""
    KeysPage(visitor, access).build(service)


class KeysPage:
    """An administrator's list of all keys, or a person's list of their own."""

    def __init__(self, visitor: Visitor, access: Access) -> None:
        self._visitor, self._access = visitor, access
        self._rules = "admin" in visitor.caller.capabilities
        self._made: tuple[KeyInfo, str] | None = None  # a new key, until it is shown

    def build(self, service: Service) -> None:
        """Head, explanation, list."""
        title = "Keys" if self._rules else "Your keys"
        with parts.settings_frame(self._visitor, service, self._access, AT, title) as head:
            self._acting = Acting(
                visitor=self._visitor, service=service, place=head, done=self._acted
            )
            if self._rules:
                with head:
                    new = ui.button("New key", icon="sym_o_add", on_click=self._ask)
                    new.props("no-caps unelevated")
            text(
                "A key is for scripts, agents and the command line; it belongs to one project and "
                'never administers. The published client\'s "el auth login" makes a personal one that '
                "ends with the person.",
                "pw-2",
                "p",
            )
            with box("pw-card", "section"):
                self._list = ui.refreshable(self._draw)
                self._list()

    def _draw(self) -> None:
        keys = self._access.keys.visible(self._visitor.caller)
        if not keys:
            text("No keys yet.", "pw-nothing", "div")
            return
        with parts.sheet(COLUMNS, "Keys"):
            for key in keys:
                self._draw_row(key)

    def _draw_row(self, key: KeyInfo) -> None:
        with box(tag="tr"):
            parts.cell(key.name, "pw-strong")
            parts.cell(key.preset)
            css, icon_name, word = STATES[key.state]
            with box(tag="td"), box(f"pw-state {css}", "span"):
                icon(icon_name)
                text(word)
            parts.cell(key.made_by)
            parts.time_cell(key.created_at)
            parts.time_cell(key.last_used_at)
            parts.time_cell(key.expires_at, "Never")
            with box(tag="td"):
                if key.state == "active" and key.id != "owner":
                    revoke = ui.button("Revoke", color="negative")
                    revoke.props(f'no-caps outline aria-label="Revoke {key.name}"').classes("pw-sm")
                    revoke.on_click(lambda: self._confirm(key))

    def _ask(self) -> None:
        with parts.dialog("New key") as (opened, note):
            name = parts.field("Name")
            text("May", "pw-label", "div")
            role = ui.radio(PRESETS, value="developer").props("dense")
            about = text(ABOUT["developer"], "pw-2 pw-small", "div")
            role.on_value_change(lambda event: about.set_text(ABOUT[event.value]))
            projects = self._access.keys.projects()
            text("Project", "pw-label", "div")
            project = ui.select(projects, value=self._visitor.caller.project_id)
            project.props('outlined dense options-dense aria-label="Project"').classes("pw-wide")
            text("Ends", "pw-label", "div")
            life = ui.select(LIVES, value=0)
            life.props('outlined dense options-dense aria-label="Ends"').classes("pw-wide")

            def create(caller: Caller) -> None:
                self._made = self._access.keys.create(
                    caller,
                    name=name.value.strip(),
                    role=role.value,
                    project=project.value,
                    days=life.value or None,
                )

            parts.buttons(opened, "Create", request(self._acting, opened, note, create))

    async def _acted(self) -> None:
        """Draw the list anew, and show the key that was just made."""
        self._list.refresh()
        if self._made is not None:
            self._show(*self._made)
            self._made = None

    def _show(self, info: KeyInfo, key: str) -> None:
        """The key's text, this once."""
        with self._acting.place, parts.dialog(f"Key {info.name}") as (opened, _):
            opened.props("persistent")
            text("Copy it now: it is shown this once and stored nowhere.", "pw-2", "p")
            parts.copyable(key)
            with box("pw-row pw-foot"):
                done = ui.button("I have copied it", on_click=opened.close)
                done.props("no-caps unelevated")

    def _confirm(self, key: KeyInfo) -> None:
        with parts.dialog(f"Revoke {key.name}?") as (opened, note):
            text("Whatever uses it is refused from now on. This cannot be undone.", "pw-2", "p")

            def revoke(caller: Caller) -> None:
                self._access.keys.revoke(caller, key.id)

            act = request(self._acting, opened, note, revoke)
            parts.buttons(opened, "Revoke", act, negative=True)
