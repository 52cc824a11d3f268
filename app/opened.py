"""A home's server in this process: its parts, opened one after the other and ended in order.

What opens the database is imported once the home is held, so that a second start learns at once
who holds it.
"""

import contextlib
import sys
from collections.abc import Callable
from socket import socket
from typing import TYPE_CHECKING, Any, Protocol, Self

from app.admin import AdminSocket
from app.errors import InvalidRequest
from app.logs import keep_log
from app.options import PORTS
from app.stopping import Stopping
from data.disk import is_full
from data.home import Home, HomeHeld, HomeLock, home_folder, open_home
from data.snapshot import DatabaseRefused

if TYPE_CHECKING:
    from app.access import Access
    from app.service import Service
    from data.store import Store

Begin = Callable[["Opened", contextlib.ExitStack], "tuple[Service, Worked]"]
Commands = Callable[["Opened"], dict[str, Callable[..., Any]]]


class Opened:
    """Store, access, service and engine of the home; `begin` makes the last two.

    With a host it listens there. Exits with 2 when the home cannot be had (another server has it,
    a newer Pawl wrote it, its disk is full), with 3 when the port is taken; the home is taken
    first, before anything else, so that of two starts at once one has not begun at all.
    """

    home: Home
    store: "Store"
    access: "Access"
    service: "Service"
    engine: "Worked"
    listener: socket | None = None
    url: str | None = None
    allowed_hosts: frozenset[str] = frozenset()

    def __init__(
        self,
        stopping: Stopping,
        begin: Begin,
        commands: Commands,
        host: str | None = None,
        port: int | None = None,
        allowed_hosts: str | None = None,
    ) -> None:
        self._stopping, self._begin, self._commands = stopping, begin, commands
        self._host, self._port, self._allowed_hosts = host, port, allowed_hosts

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as ends:
            self._hold_home(ends)
            if self._host:
                self._listen(self._host, ends)
            self._open(ends)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def _hold_home(self, ends: contextlib.ExitStack) -> None:
        try:
            self.home = open_home(home_folder())
            ends.callback(HomeLock(self.home).release)
            ends.callback(keep_log(self.home.logs))
        except (HomeHeld, OSError) as refused:
            raise _cannot_open(refused) from None

    def _listen(self, host: str, ends: contextlib.ExitStack) -> None:
        from app.network import url_on
        from app.serving import listen

        self.listener = listen(host, self._port, PORTS)
        ends.callback(self.listener.close)
        self.url = url_on(host, self.listener.getsockname()[1])

    def _open(self, ends: contextlib.ExitStack) -> None:
        try:
            self._open_store(ends)
            self.service, self.engine = self._begin(self, ends)
            self._stopping.also(self.engine.interrupt)
            self._open_doors(ends)
            self.engine.start()
        except DatabaseRefused as refused:
            raise _cannot_open(refused) from None
        except Exception as error:
            if not is_full(error):
                raise
            mend = "free some space there, then start again"
            raise _cannot_open(f"the disk of {self.home.path} is full: {mend}") from None

    def _open_store(self, ends: contextlib.ExitStack) -> None:
        from app.access import Access
        from data.store import Store

        self.store = Store(self.home.database)
        ends.callback(self.store.close)
        self.access = Access(self.store, self.home)
        self.access.ensure_owner()
        self._check_reach()

    def _check_reach(self) -> None:
        from app.network import check_reach

        try:
            if self._host:
                self.allowed_hosts = check_reach(self._host, self.access, self._allowed_hosts)
        except InvalidRequest as refused:
            raise _cannot_open(refused) from None

    def _open_doors(self, ends: contextlib.ExitStack) -> None:
        from app.serving import note_server

        ends.callback(AdminSocket(self.home.admin_socket, self._commands(self)).close)
        note_server(self.home, self.url)
        ends.callback(lambda: self.home.server_json.unlink(missing_ok=True))


class Worked(Protocol):
    """What works on the home's rows: the engine, or what stands in its place."""

    def start(self) -> None:
        """Begin, once everything else is there."""
        ...

    def interrupt(self) -> None:
        """Begin nothing more; returns at once."""
        ...

    def beat_age(self) -> float:
        """Seconds since it last looked for work."""
        ...


def _cannot_open(why: object) -> SystemExit:
    """The exit of a start that does not get its home, with the reason said."""
    print(why, file=sys.stderr)
    return SystemExit(2)
