"""Administration commands: the one place that carries them out, in the server or beside none.

A running server gets them over its administration socket; without one, they take the home's lock
and write by themselves. Either way the machine's owner asks.
"""

import time
from collections.abc import Callable
from typing import Any

from app import cleaning
from app.access import PROJECT, WORKSPACE, Access
from app.admin import call_admin
from app.caller import CAPABILITIES, Caller
from app.errors import Unavailable
from app.people import OWNER
from data.home import Home, HomeHeld, HomeLock
from data.store import Store

Commands = dict[str, Callable[..., Any]]
STARTING_SECONDS = 15.0  # how long a server may hold its home before its socket answers

LOCAL_OWNER = Caller(
    actor=OWNER,
    workspace_id=WORKSPACE,
    project_id=PROJECT,
    capabilities=CAPABILITIES,
    user_id=OWNER,
)


def commands(access: Access) -> Commands:
    """Every command by name; arguments and results are plain JSON."""
    keys, people, settings = access.keys, access.people, access.settings
    return {
        "key.create": lambda **given: _created(*keys.create(LOCAL_OWNER, **given)),
        "key.list": lambda: [one.model_dump() for one in keys.visible(LOCAL_OWNER)],
        "key.revoke": lambda key_id: keys.revoke(LOCAL_OWNER, key_id).model_dump(),
        "user.add": lambda **given: people.add(LOCAL_OWNER, **given).model_dump(),
        "user.list": lambda: [one.model_dump() for one in people.list_all(LOCAL_OWNER)],
        "user.role": lambda **given: people.set_role(LOCAL_OWNER, **given).model_dump(),
        "user.remove": lambda name: people.remove(LOCAL_OWNER, name).model_dump(),
        "user.password": lambda **given: people.set_password(LOCAL_OWNER, **given).model_dump(),
        "setting.set": lambda **given: settings.set(LOCAL_OWNER, **given).model_dump(),
        "setting.list": lambda: [one.model_dump() for one in settings.list_all(LOCAL_OWNER)],
    }


def administer(
    home: Home, command: str, more: Callable[[Store], Commands] | None = None, **arguments: Any
) -> Any:
    """Carry out a command where the home is held, else here; the service's errors either way.

    `more` makes commands beside those of this file, for a home that nobody holds.
    """
    deadline = time.monotonic() + STARTING_SECONDS
    while True:
        try:
            lock = HomeLock(home)
        except HomeHeld:
            try:
                return call_admin(home.admin_socket, command, **arguments)
            except Unavailable:  # it is about to answer, or about to end
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        else:
            try:
                return _carry_out(home, command, more, arguments)
            finally:
                lock.release()


def _carry_out(
    home: Home,
    command: str,
    more: Callable[[Store], Commands] | None,
    arguments: dict[str, Any],
) -> Any:
    store = Store(home.database)
    try:
        access = Access(store, home)
        access.ensure_owner()
        known = {**commands(access), **cleaning.commands(store, home)}
        known |= more(store) if more is not None else {}
        return known[command](**arguments)
    finally:
        store.close()


def _created(info: Any, key: str) -> dict[str, Any]:
    return {**info.model_dump(), "key": key}
