"""Settings, Your account: who you are here, and your password."""

import asyncio

from nicegui import ui

from app import throttle
from app.access import Access
from app.caller import Caller
from app.errors import AccessDenied, ServiceError
from app.passwords import SHORTEST
from app.people import Person
from app.service import Service
from pages import settings_parts as parts
from pages.frame import Visitor
from pages.parts import box, card, term, text

AT = "/settings/account"


def account_page(visitor: Visitor, service: Service, access: Access) -> None:
    """Build the page for one person."""
    with parts.settings_frame(visitor, service, access, AT, "Your account"):
        try:
            me = access.people.me(visitor.caller)
        except ServiceError as error:
            parts.refusal(box(), str(error))
            return
        with card("You"), box("pw-cb"), box("pw-kv pw-left", "dl"):
            term("Name", me.name)
            term("Role", me.role.capitalize())
        with card("Password"), box("pw-cb pw-narrow"):
            PasswordForm(visitor, access, me)


class PasswordForm:
    """Changes one's own password; drawn anew, with empty fields, once it was changed."""

    def __init__(self, visitor: Visitor, access: Access, me: Person) -> None:
        self._visitor, self._access, self._me = visitor, access, me
        self._changed = False
        self._form = ui.refreshable(self._draw)
        self._form()

    def _draw(self) -> None:
        self._note = box()
        if self._changed:
            with self._note:
                text("Your password is changed.", "pw-good", "p").props("role=status")
        known = self._me.has_password
        self._current = parts.field("Current password", secret=True) if known else None
        self._fresh = parts.field(f"New password, at least {SHORTEST} characters", secret=True)
        self._again = parts.field("New password, again", secret=True)
        text("Your other sign-ins end.", "pw-2 pw-small", "div")
        button = ui.button("Change password", on_click=self._change)
        button.props("no-caps unelevated").classes("pw-gap")

    async def _change(self) -> None:
        caller = self._visitor.still()
        if caller is None:
            return
        if self._fresh.value != self._again.value:
            parts.refusal(self._note, "The two new passwords differ.")
            return
        given = self._current.value if self._current else ""
        try:
            await asyncio.to_thread(self._carry_out, caller, given, self._fresh.value)
        except ServiceError as error:
            parts.refusal(self._note, str(error))
            return
        self._me, self._changed = self._access.people.me(caller), True
        self._form.refresh()

    def _carry_out(self, caller: Caller, current: str, fresh: str) -> None:
        """A wrong current password counts as a failed sign-in of the account."""
        account = throttle.account(self._me.name)
        if seconds := self._access.throttle.begin(account):
            raise AccessDenied(f"too many failed tries; wait {int(seconds) + 1} s")
        self._access.people.change_password(caller, current, fresh)
        self._access.throttle.succeeded(account, "")
