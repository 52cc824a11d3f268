"""Settings, People: who can sign in, with which role."""

from collections.abc import Callable

from nicegui import ui

from app.access import Access
from app.caller import Caller
from app.passwords import SHORTEST
from app.people import OWNER, Person
from app.service import Service
from pages import settings_parts as parts
from pages.acting import Acting
from pages.frame import Visitor
from pages.parts import box, text
from pages.request import request

AT = "/settings/people"
COLUMNS = ["Name", "Role", "Password", "Added", "Last sign-in", ""]
ROLES = {"viewer": "Viewer", "developer": "Developer", "admin": "Admin"}
ABOUT = (
    "Viewers read. Developers also start, steer and stop runs, use and deploy versions. Admins also "
    "keep people, keys, models, prices and settings."
)


def people_page(visitor: Visitor, service: Service, access: Access) -> None:
    """Build the page for one administrator."""
    PeoplePage(visitor, access).build(service)


class PeoplePage:
    """The list of people and what can be done with it."""

    def __init__(self, visitor: Visitor, access: Access) -> None:
        self._visitor, self._people = visitor, access.people
        self._access = access

    def build(self, service: Service) -> None:
        """Head, explanation, list."""
        with parts.settings_frame(self._visitor, service, self._access, AT, "People") as head:
            self._acting = Acting(
                visitor=self._visitor, service=service, place=head, done=self._acted
            )
            with head:
                add = ui.button("Add a person", icon="sym_o_person_add", on_click=self._ask)
                add.props("no-caps unelevated")
            text(ABOUT, "pw-2", "p")
            with box("pw-card", "section"):
                self._list = ui.refreshable(self._draw)
                self._list()

    def _draw(self) -> None:
        with parts.sheet(COLUMNS, "People"):
            for person in self._people.list_all(self._visitor.caller):
                self._draw_row(person)

    def _draw_row(self, person: Person) -> None:
        name = person.name
        with box(tag="tr"):
            parts.cell(name, "pw-strong")
            parts.cell(ROLES[person.role])
            parts.cell("Set" if person.has_password else None)
            parts.time_cell(person.created_at)
            parts.time_cell(person.signed_in_at)
            with box(tag="td"), box("pw-row pw-foot-row"):
                self._button("Password", name, lambda: self._ask_password(name))
                if name != OWNER:
                    self._button("Role", name, lambda: self._ask_role(person))
                    self._button("Remove", name, lambda: self._confirm(person), "negative")

    def _button(
        self, word: str, name: str, act: Callable[[], None], color: str | None = None
    ) -> None:
        button = ui.button(word, color=color, on_click=act)
        button.props(f'no-caps outline aria-label="{word} of {name}"').classes("pw-sm")

    def _ask(self) -> None:
        with parts.dialog("Add a person") as (opened, note):
            name = parts.field("Name")
            role = self._role_field("developer")
            password = parts.field(f"Password, at least {SHORTEST} characters", secret=True)
            text("Tell it to them; they change it under their own name.", "pw-2 pw-small", "div")

            def add(caller: Caller) -> None:
                self._people.add(
                    caller, name=name.value.strip(), role=role.value, password=password.value
                )

            parts.buttons(opened, "Add", request(self._acting, opened, note, add))

    def _ask_role(self, person: Person) -> None:
        with parts.dialog(f"Role of {person.name}") as (opened, note):
            role = self._role_field(person.role)
            text("They sign in anew.", "pw-2 pw-small", "div")

            def change(caller: Caller) -> None:
                self._people.set_role(caller, person.name, role.value)

            parts.buttons(opened, "Change", request(self._acting, opened, note, change))

    def _ask_password(self, name: str) -> None:
        with parts.dialog(f"New password of {name}") as (opened, note):
            password = parts.field(f"Password, at least {SHORTEST} characters", secret=True)
            text("Their other sign-ins end.", "pw-2 pw-small", "div")

            def change(caller: Caller) -> None:
                self._people.set_password(caller, name, password.value)

            parts.buttons(opened, "Change", request(self._acting, opened, note, change))

    def _confirm(self, person: Person) -> None:
        with parts.dialog(f"Remove {person.name}?") as (opened, note):
            text("Their sign-ins and the keys of their command lines end now.", "pw-2", "p")
            if person.keys:
                kept = f"Project keys they made stay: {', '.join(person.keys)}. See Keys."
                text(kept, "pw-2 pw-break", "p")

            def remove(caller: Caller) -> None:
                self._people.remove(caller, person.name)

            act = request(self._acting, opened, note, remove)
            parts.buttons(opened, "Remove", act, negative=True)

    def _role_field(self, role: str) -> ui.radio:
        text("Role", "pw-label", "div")
        return ui.radio(ROLES, value=role).props("dense inline")

    async def _acted(self) -> None:
        self._list.refresh()
