"""Pawl's one command: set-up on first use, then a subcommand (see `python3 run.py --help`).

This file wires the rooms together, and nothing else does.
"""

from __future__ import annotations  # an older Python gets as far as the message about itself

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import set_up
from app.options import parse

if TYPE_CHECKING:
    from typing import Self

    from app.access import Access
    from app.caller import Caller
    from app.service import Service
    from app.shapes import RunDetail
    from data.home import Home
    from data.store import Store
    from engine.facts import Library
    from engine.scheduler import Engine

ROOT = set_up.ROOT
PORTS = range(8710, 8730)


def main(argv: list[str]) -> int:
    """Set up when needed, go over into .venv, and carry out one subcommand; its exit code."""
    args = parse(argv)
    ended = set_up.ensure(argv)
    if ended is not None:
        return ended
    if args.home:
        os.environ["PAWL_HOME"] = str(args.home.expanduser().resolve())
    return COMMANDS[args.command](args)


# Subcommands. Each imports what it needs, so that the others start without it.


def serve(args: argparse.Namespace) -> int:
    """Serve the console and print its link."""
    from app.serving import choose_port

    port = choose_port(args.host, args.port, PORTS)
    url = f"http://{args.host}:{port}"
    with opened(url) as pawl:
        way_in = pawl.access.sign_in_link(url)
        print(f"Pawl is at {url}, home folder {pawl.home.path}", flush=True)
        print(f"Sign in once with {way_in}", flush=True)
        if not args.no_browser:
            open_browser(way_in)
        signal.signal(signal.SIGTERM, _interrupt)  # the web server passes it on when it has ended
        with contextlib.suppress(KeyboardInterrupt):
            serve_console(pawl, args.host, port)
    return 0


def demo(args: argparse.Namespace) -> int:
    """Run the main job without a browser; 0 when the run finished."""
    from app.demo import ServerGone, closing_table, result, write_json
    from app.errors import ServiceError

    if args.json and not args.json.resolve().parent.is_dir():
        print(f"--json: there is no folder {args.json.resolve().parent}", file=sys.stderr)
        return 2
    started = time.monotonic()
    try:
        run = run_demo(args)
    except (ServiceError, ServerGone) as refused:
        print(refused, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. The run is kept: python3 run.py goes on with it.")
        return 130
    seconds = time.monotonic() - started
    print(closing_table(run, seconds))
    print(f"\nSee it in the console: {console_of(run.run)}")
    if args.json:
        write_json(args.json, result(run, seconds))
    return 0 if run.state == "finished" else 1


def console_of(run: str) -> str:
    """Where a run can be seen: on the server that holds the home, or how to start one."""
    from data.home import open_home

    url = (open_home(home_folder()).server() or {}).get("url")
    return f"{url}/runs/{run}" if url else f"python3 run.py   (home folder {home_folder()})"


def link(args: argparse.Namespace) -> int:
    """Print a new one-time sign-in link of the running server."""
    from app.admin import call_admin
    from app.errors import ServiceError
    from data.home import open_home

    try:
        print(call_admin(open_home(home_folder()).admin_socket, "link"))
    except ServiceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def doctor(args: argparse.Namespace) -> int:
    """Print what this machine can do, each line with its mend; 1 when something needed is broken."""
    from app.doctor import lines, report

    ports = range(args.port, args.port + 1) if args.port else PORTS
    checks = report(home_folder(), set_up.MODEL_FILE, set_up.MODEL_SHA256, ports)
    print("\n".join(lines(checks)))
    return int(any(check.state == "broken" for check in checks))


def test(args: argparse.Namespace) -> int:
    """Become pytest, with the arguments that are not our own."""
    if args.long:
        os.environ["PAWL_LONG"] = "1"
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *args.pytest])


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "serve": serve,
    "demo": demo,
    "test": test,
    "doctor": doctor,
    "link": link,
}


# Wiring


class opened:
    """A home's server in this process: store, engine, service, ended in order on the way out.

    HomeHeld, as an exit with code 2, when another server has the home.
    """

    home: Home
    store: Store
    access: Access
    engine: Engine
    service: Service

    def __init__(self, url: str | None = None) -> None:
        self.url = url

    def __enter__(self) -> Self:
        from app.access import Access
        from app.admin import AdminSocket
        from app.service import Service
        from app.serving import note_server
        from data.home import HomeHeld, HomeLock, open_home
        from data.migrations import NewerDatabase
        from data.store import Store
        from engine.device import find_device
        from engine.scheduler import Engine, EngineSettings

        self.home = open_home(home_folder())
        try:
            self._lock = HomeLock(self.home)
            self.store = Store(self.home.database)
        except (HomeHeld, NewerDatabase) as refused:
            print(refused, file=sys.stderr)
            raise SystemExit(2) from None
        device = find_device()
        self.access = Access(self.store, self.home)
        self.access.ensure_owner()
        self.service = Service(self.store, device.label)
        self._admin = AdminSocket(self.home.admin_socket, admin_commands(self))
        note_server(self.home, self.url)
        settings = EngineSettings(device=device.name, gguf=set_up.MODEL_FILE)
        self.engine = Engine(self.store, self.home, library(), settings)
        self.engine.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()
        self.engine.stop()
        self.home.server_json.unlink(missing_ok=True)
        self.store.close()
        self._lock.release()


def library() -> Library:
    """What the recipes bring to the engine."""
    from engine.facts import Library
    from recipes.domains import DOMAINS
    from recipes.guard import GUARD
    from recipes.replay import REPLAY_MAX_TOKENS, REPLAY_PROMPTS, REPLAY_SYSTEMS

    return Library(
        domains=DOMAINS,
        guard=GUARD,
        replay_prompts=REPLAY_PROMPTS,
        replay_systems=REPLAY_SYSTEMS,
        replay_tokens=REPLAY_MAX_TOKENS,
    )


def admin_commands(pawl: opened) -> dict[str, Callable[..., Any]]:
    """What this machine may ask of a running server."""
    from app.errors import Unavailable

    def start_run(**fields: Any) -> str:
        return pawl.service.start_run(owner(), **fields).run

    def sign_in_link() -> str:
        if pawl.url is None:
            raise Unavailable("the process that holds the home shows no console: start run.py")
        return pawl.access.sign_in_link(pawl.url)

    return {"start_run": start_run, "link": sign_in_link}


def owner() -> Caller:
    """The person whose machine this is."""
    from app.access import PROJECT, WORKSPACE
    from app.caller import CAPABILITIES, Caller

    return Caller(
        actor="owner", workspace_id=WORKSPACE, project_id=PROJECT, capabilities=CAPABILITIES
    )


def serve_console(pawl: opened, host: str, port: int) -> None:
    """Serve the pages behind the guard until SIGTERM or Ctrl-C."""
    from nicegui import app as web
    from nicegui import ui

    from app import sign_in
    from app.guard import Guard
    from app.serving import hush_disconnects
    from pages import site
    from pages.sign_in_page import sign_in_html

    site.register(pawl.service, pawl.access)
    for route in sign_in.routes(pawl.access, port=port, page=sign_in_html):
        web.router.routes.insert(0, route)
    web.get("/healthz")(lambda: {"status": "ok"})

    def guard() -> None:  # around everything, so after NiceGUI has built its own layers
        hush_disconnects()
        assert web.middleware_stack is not None
        web.middleware_stack = Guard(web.middleware_stack, access=pawl.access, port=port)

    web.on_startup(guard)
    ui.run(
        host=host,
        port=port,
        reload=False,
        show=False,
        show_welcome_message=False,
        timeout_graceful_shutdown=2,
        **site.OPTIONS,
    )


def open_browser(url: str) -> None:
    """Open the console where there is a screen to show it on."""
    import threading
    import webbrowser

    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin":
        threading.Timer(1.5, webbrowser.open, [url]).start()


def run_demo(args: argparse.Namespace) -> RunDetail:
    """Start the demo's run here, or on the server that holds the home, and follow it."""
    from app.admin import call_admin
    from app.demo import demo_fields, follow
    from app.service import Service
    from data.home import is_held, open_home
    from data.store import Reader
    from engine.device import find_device

    fields = demo_fields(args.preset, args.domain, args.rounds, args.seed)
    home = open_home(home_folder())
    if is_held(home):
        print("A server holds this home folder; the demo runs there.")
        run = call_admin(home.admin_socket, "start_run", **fields)
        reader = Service(Reader(home.database), find_device().label)
        return follow(reader, owner(), run, is_served=lambda: is_held(home))
    with opened() as pawl:
        signal.signal(signal.SIGTERM, _interrupt)
        run = pawl.service.start_run(owner(), **fields).run
        return follow(pawl.service, owner(), run)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def home_folder() -> Path:
    """PAWL_HOME, else the default place; not made here."""
    return Path(os.environ.get("PAWL_HOME") or "~/.local/share/pawl").expanduser().resolve()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
