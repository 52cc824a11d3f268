"""Pawl's one command: set-up on first use, then a subcommand (see `python3 run.py --help`).

This file wires the rooms together, and nothing else does.
"""

from __future__ import annotations  # an older Python gets as far as the message about itself

import argparse
import contextlib
import functools
import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from app import set_up
from app.options import parse
from app.stopping import Stopping

if TYPE_CHECKING:
    from socket import socket
    from typing import Self

    from app.access import Access
    from app.caller import Caller
    from app.ports import Lent
    from app.service import Service
    from app.shapes import RunDetail
    from data.cassette import Cassette
    from data.home import Home
    from data.store import Store
    from engine.facts import Library
    from engine.scheduler import Engine, EngineSettings

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
    try:
        code = COMMANDS[args.command](args)
        sys.stdout.flush()
    except BrokenPipeError:  # such as `| head`, which has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


# Subcommands. Each imports what it needs, so that the others start without it.


def serve(args: argparse.Namespace) -> int:
    """Serve the console and print its link."""
    gc.disable()  # what is loaded from here on stays: no use in looking for garbage in it
    stopping = Stopping()
    where = args.host, args.port, args.allowed_hosts
    with contextlib.suppress(KeyboardInterrupt), opened(stopping, *where) as pawl:
        assert pawl.url is not None
        way_in = pawl.access.sign_in_link(pawl.url)
        print(f"Pawl is at {pawl.url}, home folder {pawl.home.path}", flush=True)
        tell_others(pawl)
        print(f"Sign in once with {way_in}", flush=True)
        if not args.no_browser:
            open_browser(way_in)
        serve_console(pawl, stopping)
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


def administration(args: argparse.Namespace) -> int:
    """Keys, people and settings: on the running server where there is one."""
    from app.administration_cli import run_command
    from data.home import open_home

    return run_command(args, open_home(home_folder()))


def models(args: argparse.Namespace) -> int:
    """Base models, models behind the gateway, a project's own caps: on the server where one is."""
    from app import bases, bases_cli
    from app.models_cli import run_command
    from data.home import open_home
    from engine.models.base_files import BaseFiles

    home = open_home(home_folder())
    if args.action in bases_cli.ACTIONS:
        return bases_cli.run_command(args, home, BaseFiles(models=home.models), bases.commands)
    return run_command(args, home, money_commands)


def preset(args: argparse.Namespace) -> int:
    """List the presets, or look at one before it trains; 1 when it would be refused."""
    from data.home import open_home
    from engine.preset_report import report
    from recipes.presets import load_preset, preset_names, preset_words

    if args.action == "list":
        print("\n".join(f"{name}: {preset_words(name)}" for name in preset_names()))
        return 0
    if args.name not in preset_names():
        there = ", ".join(preset_names())
        print(f"there is no preset {args.name}; there are {there}", file=sys.stderr)
        return 2
    home = open_home(home_folder())
    refused = report(load_preset(args.name), args.base, home.models, library(), print)
    return int(refused)


def checkpoint(args: argparse.Namespace) -> int:
    """Adapters taken in, listed, handed out, merged, deleted: by the running server where one is."""
    from app.checkpoint_admin import commands
    from app.checkpoint_cli import Desk, run_command
    from data.home import open_home
    from engine.models.adapter_files import AdapterFiles

    home = open_home(home_folder())
    files = AdapterFiles(home, set_up.MODEL_FILE, set_up.MODEL_SHA256)
    return run_command(args, Desk(home=home, port=files, more=lambda s: commands(s, home)))


def upkeep(args: argparse.Namespace) -> int:
    """Back the home up, restore it, or clean it."""
    from app.upkeep import run_command
    from data.home import Home

    return run_command(args, Home(path=home_folder()))


def sandbox(args: argparse.Namespace) -> int:
    """Make the image that sandboxes run in, or say how they stand; 1 when they cannot be had."""
    from engine.sandbox.docker_engine import SandboxUnavailable
    from engine.sandbox.image import BASE, build, standing

    try:
        if args.action == "build":
            build(args.rootfs, print, args.base or BASE)
        print("\n".join(standing()))
    except SandboxUnavailable as refused:
        print(refused, file=sys.stderr)
        return 1
    return 0


def install(args: argparse.Namespace) -> int:
    """Install vLLM in an environment of its own; 1 when that failed."""
    from app.install import run_command

    return run_command(args, home_folder())


def deploy(args: argparse.Namespace) -> int:
    """Deploy a version on the running server; 1 when it is refused or does not answer."""
    from app.deploy_cli import run_command
    from data.home import open_home

    return run_command(args, open_home(home_folder()))


def cassette(args: argparse.Namespace) -> int:
    """Write a finished run into a file, or show such a file; 1 when it is refused."""
    from app.cassette import export, load
    from data.cassette import CassetteRefused
    from data.home import Home

    file = args.file.expanduser().resolve()
    try:
        if args.action == "play":
            return play(args, load(file))
        print(export(Home(path=home_folder()), args.run, file))
    except CassetteRefused as refused:
        print(refused, file=sys.stderr)
        return 1
    return 0


def play(args: argparse.Namespace, recorded: Cassette) -> int:
    """Show a recorded run in a console on a home of its own, which is gone afterwards."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pawl-replay-") as folder:
        os.environ["PAWL_HOME"] = folder
        stopping = Stopping()
        with (
            contextlib.suppress(KeyboardInterrupt),
            replaying(stopping, recorded, args.speed, args.port) as pawl,
        ):
            assert pawl.url is not None
            way_in = pawl.access.sign_in_link(pawl.url)
            print(f"Replay of {recorded.run} at {args.speed:g} times its speed", flush=True)
            print(f"See it with {way_in}", flush=True)
            if not args.no_browser:
                open_browser(way_in)
            serve_console(pawl, stopping)
    return 0


def doctor(args: argparse.Namespace) -> int:
    """Print what this machine can do, each line with its mend; 1 when something needed is broken."""
    from app.doctor import lines, report
    from engine.cards import read_uses
    from engine.neighbours import in_words, neighbour

    on_cards = in_words([neighbour(use.pid, use.bytes) for use in read_uses()])
    ports = range(args.port, args.port + 1) if args.port else PORTS
    checks = report(home_folder(), set_up.MODEL_FILE, set_up.MODEL_SHA256, ports, on_cards)
    print("\n".join(lines(checks)))
    return int(any(check.state == "broken" for check in checks))


def test(args: argparse.Namespace) -> int:
    """Become pytest, with the arguments that are not our own."""
    if args.long:
        os.environ["PAWL_LONG"] = "1"
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *args.rest])


def verify(args: argparse.Namespace) -> int:
    """Run a Verifier over a case file; 1 when they disagree, 2 when nothing could be compared."""
    from engine.case_file import disagreements, read_cases
    from engine.errors import SandboxMissing
    from engine.sandbox.owner import instance_of
    from engine.verdicts import Verdicts
    from recipes.verifiers.by_name import find_verifier

    verdicts = Verdicts(b"verify", instance_of(home_folder()))
    try:
        cases = read_cases(args.cases)
        wrong = list(disagreements(find_verifier(args.verifier), cases, verdicts))
    except (ValueError, OSError, SandboxMissing) as refused:
        print(refused, file=sys.stderr)
        return 2
    finally:
        verdicts.close()
    print("\n".join([*wrong, f"{len(cases) - len(wrong)} agree, {len(wrong)} disagree"]))
    return int(bool(wrong))


def bench(args: argparse.Namespace) -> NoReturn:
    """Become one of the benchmarks, with the arguments behind its name."""
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, "-m", f"tests.bench.{args.name}", *args.rest])


def el(args: argparse.Namespace) -> NoReturn:
    """The command line of the doors."""
    from app.cli.main import main as ask

    ask(args.rest)


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "serve": serve,
    "demo": demo,
    "test": test,
    "verify": verify,
    "bench": bench,
    "doctor": doctor,
    "el": el,
    "link": link,
    "key": administration,
    "user": administration,
    "setting": administration,
    "model": models,
    "project": models,
    "preset": preset,
    "sandbox": sandbox,
    "install": install,
    "deploy": deploy,
    "cassette": cassette,
    "checkpoint": checkpoint,
    "backup": upkeep,
    "restore": upkeep,
    "clean": upkeep,
}


# Wiring


class opened:
    """A home's server in this process: store, engine, service, ended in order on the way out.

    With a host it listens there. Exits with 2 when the home cannot be had (another server has it,
    a newer Pawl wrote it, its disk is full), with 3 when the port is taken; the home is taken
    first, before anything else, so that of two starts at once one has not begun at all.
    """

    home: Home
    store: Store
    access: Access
    engine: Engine
    service: Service
    listener: socket | None = None
    url: str | None = None
    allowed_hosts: frozenset[str] = frozenset()

    def __init__(
        self,
        stopping: Stopping,
        host: str | None = None,
        port: int | None = None,
        allowed_hosts: str | None = None,
    ) -> None:
        self._stopping, self._host, self._port = stopping, host, port
        self._allowed_hosts = allowed_hosts

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
        from app.logs import keep_log
        from data.home import HomeHeld, HomeLock, open_home

        try:
            self.home = open_home(home_folder())
            ends.callback(HomeLock(self.home).release)
            ends.callback(keep_log(self.home.logs))
        except (HomeHeld, OSError) as refused:
            raise cannot_open(refused) from None

    def _listen(self, host: str, ends: contextlib.ExitStack) -> None:
        from app.network import url_on
        from app.serving import listen

        self.listener = listen(host, self._port, PORTS)
        ends.callback(self.listener.close)
        self.url = url_on(host, self.listener.getsockname()[1])

    def _open(self, ends: contextlib.ExitStack) -> None:
        from data.disk import is_full
        from data.snapshot import DatabaseRefused

        try:
            self._open_store(ends)
            self._make_engine(ends)
            self._open_doors(ends)
            self.engine.start()
        except DatabaseRefused as refused:
            raise cannot_open(refused) from None
        except Exception as error:
            if not is_full(error):
                raise
            mend = "free some space there, then start again"
            raise cannot_open(f"the disk of {self.home.path} is full: {mend}") from None

    def _open_store(self, ends: contextlib.ExitStack) -> None:
        from app.access import Access
        from app.service import Service
        from data.store import Store
        from engine.device import find_device
        from engine.verdicts import why_no_sandbox

        self.store = Store(self.home.database)
        ends.callback(self.store.close)
        self.access = Access(self.store, self.home)
        self.access.ensure_owner()
        self._check_reach()
        self.service = Service(self.store, find_device().label, why_no_sandbox)

    def _check_reach(self) -> None:
        from app.errors import InvalidRequest
        from app.network import check_reach

        try:
            if self._host:
                self.allowed_hosts = check_reach(self._host, self.access, self._allowed_hosts)
        except InvalidRequest as refused:
            raise cannot_open(refused) from None

    def _make_engine(self, ends: contextlib.ExitStack) -> None:
        from engine.sandbox.reaper import Reaper
        from engine.scheduler import Engine

        self.engine = Engine(self.store, self.home, library(), engine_settings())
        ends.callback(self.engine.stop)
        self.service.watch(self.engine.machine)
        self.access.settings.devices = self.engine.machine.devices
        self.service.lend(lent(self.engine))
        self.service.look_at_recipes(recipe_faults(self.home, self.engine))
        self._stopping.also(self.engine.interrupt)
        reaper = Reaper(self.home.path)
        reaper.start()
        ends.callback(reaper.stop)

    def _open_doors(self, ends: contextlib.ExitStack) -> None:
        from app.admin import AdminSocket
        from app.serving import note_server

        ends.callback(AdminSocket(self.home.admin_socket, admin_commands(self)).close)
        note_server(self.home, self.url)
        ends.callback(lambda: self.home.server_json.unlink(missing_ok=True))


class replaying(opened):
    """A home in which a recorded run is played, with a player in the engine's place."""

    def __init__(
        self, stopping: Stopping, recorded: Cassette, speed: float, port: int | None
    ) -> None:
        super().__init__(stopping, "127.0.0.1", port)
        self._recorded, self._speed = recorded, speed

    def _make_engine(self, ends: contextlib.ExitStack) -> None:
        from app.cassette import Player, title
        from app.service import Service
        from data.store import Reader

        player = Player(self.store, self._recorded, self._speed)
        self.engine = player  # type: ignore[assignment]
        ends.callback(player.stop)
        self._stopping.also(player.interrupt)
        reader = Reader(self.home.database)  # whoever asks: what was recorded alone is written
        ends.callback(reader.close)
        self.service = Service(reader, title(self._recorded, self._speed))


def cannot_open(why: object) -> SystemExit:
    """The exit of a start that does not get its home, with the reason said."""
    print(why, file=sys.stderr)
    return SystemExit(2)


def engine_settings() -> EngineSettings:
    """What this machine and the environment tell the engine.

    PAWL_SIM_PACE: seconds that a simulated model takes for an answer. PAWL_LEAST_FREE_MB: what must
    be free on the home's disk before a phase begins.
    """
    from engine.device import find_device
    from engine.scheduler import EngineSettings

    given: dict[str, Any] = {}
    if pace := os.environ.get("PAWL_SIM_PACE"):
        given["pace_seconds"] = float(pace)
    if least := os.environ.get("PAWL_LEAST_FREE_MB"):
        given["least_free"] = int(float(least) * 1e6)
    return EngineSettings(
        device=find_device().name,
        gguf=set_up.MODEL_FILE,
        gguf_sha256=set_up.MODEL_SHA256,
        **given,
    )


def lent(engine: Engine) -> Lent:
    """What the engine lends to the doors, its errors as theirs."""
    from app import errors
    from app.ports import Lent
    from engine.errors import EngineError, RequestRefused

    refusals = {RequestRefused: errors.CallRefused, EngineError: errors.EndpointNotReady}
    return Lent(engine.endpoints, refusals)


def recipe_faults(home: Home, engine: Engine) -> Callable[[str, Any], list[str]]:
    """What the engine finds wrong with a recipe on a base model of this home."""
    from engine.lint import faults_of

    return functools.partial(faults_of, home.models, engine.machine.train_device)


def library() -> Library:
    """What the recipes bring to the engine."""
    from engine.facts import Library
    from recipes.domains import DOMAINS
    from recipes.external import EXTERNAL
    from recipes.guard import GUARD
    from recipes.replay import REPLAY_MAX_TOKENS, REPLAY_PROMPTS, REPLAY_SYSTEMS

    return Library(
        domains=DOMAINS,
        guard=GUARD,
        replay_prompts=REPLAY_PROMPTS,
        replay_systems=REPLAY_SYSTEMS,
        replay_tokens=REPLAY_MAX_TOKENS,
        external=EXTERNAL,
    )


def admin_commands(pawl: opened) -> dict[str, Callable[..., Any]]:
    """What this machine may ask of a running server."""
    from app import bases, checkpoint_admin, cleaning
    from app.administration import commands
    from app.errors import Unavailable

    def start_run(**fields: Any) -> str:
        return pawl.service.start_run(owner(), **fields).run

    def deploy_version(version: str, name: str | None = None) -> str:
        spec = {"version": version} | ({"name": name} if name else {})
        return pawl.service.submit_job(owner(), {"type": "inference", "spec": spec}).job_id

    def sign_in_link() -> str:
        if pawl.url is None:
            raise Unavailable("the process that holds the home shows no console: start run.py")
        return pawl.access.sign_in_link(pawl.url)

    own: dict[str, Callable[..., Any]] = {"start_run": start_run, "link": sign_in_link}
    own["deploy"] = deploy_version
    own |= money_commands(pawl.store)
    kept = {**cleaning.commands(pawl.store, pawl.home), **bases.commands(pawl.store)}
    kept |= checkpoint_admin.commands(pawl.store, pawl.home)
    return {**own, **commands(pawl.access), **kept}


def money_commands(store: Store) -> dict[str, Callable[..., Any]]:
    """What is done with models and with a project's caps; the engine lends it two functions."""
    from app import models, project_caps
    from engine.models.trial import check_address, try_model

    port = models.GatewayPort(
        check_address=check_address, try_model=functools.partial(try_model, store)
    )
    return {
        **models.commands(models.Models(store, port), owner()),
        **project_caps.commands(store, owner()),
    }


def owner() -> Caller:
    """The person whose machine this is."""
    from app.administration import LOCAL_OWNER

    return LOCAL_OWNER


def tell_others(pawl: opened) -> None:
    """Say how other machines reach a server that is open to them, and what that means."""
    from app.network import PLAIN_HTTP, is_loopback, urls_for_others

    assert pawl.listener is not None
    host, port = pawl.listener.getsockname()[:2]
    if not is_loopback(host):
        names = pawl.allowed_hosts | pawl.access.settings.network.hosts
        print(f"Others reach it at {', '.join(urls_for_others(names, port))}", flush=True)
        print(PLAIN_HTTP, file=sys.stderr, flush=True)


def serve_console(pawl: opened, stopping: Stopping) -> None:
    """Serve the pages and doors behind the guard until SIGTERM or Ctrl-C."""
    from app.serving import load_socket_server

    load_socket_server()
    from nicegui import app as web
    from nicegui import ui
    from nicegui.server import Server

    from pages import site

    assert pawl.listener is not None
    host, port = pawl.listener.getsockname()[:2]
    # NiceGUI passes no socket on; ours has been held since before there was an engine.
    Server.run = functools.partialmethod(Server.run, sockets=[pawl.listener])  # type: ignore[assignment]
    open_rest = add_routes(web, pawl, port)

    def after_the_first_page() -> None:
        open_rest()
        site.load_the_rest()
        gc.freeze()
        gc.enable()

    def take_signals() -> None:  # back from the web server, which has just put its own handlers in
        stopping.gently = web.shutdown
        stopping.take_over()
        if stopping.asked:
            web.shutdown()

    web.on_startup(lambda: put_guard_around(web, pawl, port))
    web.on_startup(take_signals)
    web.on_startup(lambda: later(after_the_first_page))
    ui.run(
        host=host,
        port=port,
        reload=False,
        show=False,
        show_welcome_message=False,
        timeout_graceful_shutdown=2,
        proxy_headers=False,  # the guard reads them, from configured proxies alone
        **site.OPTIONS,
    )


def add_routes(web: Any, pawl: opened, port: int) -> Callable[[], None]:
    """Pages, ways in, MCP, health and REST; what comes back makes REST's routes."""
    from starlette.routing import Route

    from app import sign_in
    from app.arrival import MCP_PATH
    from app.health import readyz
    from app.mcp import McpDoor
    from app.rest import cli_sign_in, late
    from pages import site
    from pages.cli_sign_in_page import cli_sign_in_html
    from pages.nothing import nothing_here
    from pages.sign_in_page import sign_in_html

    site.register(pawl.service, pawl.access)
    web.add_exception_handler(404, nothing_here(pawl.service, pawl.access))
    ways_in = sign_in.routes(pawl.access, port=port, page=sign_in_html, cli_page=cli_sign_in_html)
    mcp_door = McpDoor(pawl.service)
    mcp = Route(MCP_PATH, mcp_door)
    for route in [*ways_in, *cli_sign_in.routes(pawl.access.grants), mcp]:
        web.router.routes.insert(0, route)
    web.on_shutdown(mcp_door.close)
    web.get("/healthz")(lambda: {"status": "ok"})
    web.get("/readyz")(readyz(*readiness(pawl)))
    return late.mount(web, pawl.service).open  # behind every other route below /v1


def put_guard_around(web: Any, pawl: opened, port: int) -> None:
    """The guard goes around everything, so after NiceGUI has built its own layers."""
    from app.guard import Guard
    from app.logs import keep_web_log
    from app.serving import hush_disconnects

    hush_disconnects()
    keep_web_log()
    assert web.middleware_stack is not None
    web.middleware_stack = Guard(
        web.middleware_stack, access=pawl.access, port=port, allowed_hosts=pawl.allowed_hosts
    )


def readiness(pawl: opened) -> tuple[dict[str, Callable[[], str]], dict[str, Callable[[], str]]]:
    """What /readyz asks for: what is needed, and what is only told."""
    from app import health
    from data.disk import room
    from engine.disk import FULLEST

    least = engine_settings().least_free
    needed = {
        "database": lambda: health.check_database(pawl.store.write),
        "disk": lambda: health.check_disk(room(pawl.home.path), FULLEST, least),
        "engine": lambda: health.check_engine(pawl.engine.beat_age()),
    }

    def docker() -> str:
        from app.doctor import check_docker

        return check_docker().text

    return needed, {"docker": docker}


def later(call: Callable[[], object]) -> None:
    """Call it in a second, in a thread of its own."""
    timer = threading.Timer(1.0, call)
    timer.daemon = True
    timer.start()


def open_browser(url: str) -> None:
    """Open the console where there is a screen to show it on."""
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
    stopping = Stopping()
    with opened(stopping) as pawl:
        run = pawl.service.start_run(owner(), **fields).run
        return follow(pawl.service, owner(), run, is_served=stopping.go_on)


def home_folder() -> Path:
    """PAWL_HOME, else the default place; not made here."""
    return Path(os.environ.get("PAWL_HOME") or "~/.local/share/pawl").expanduser().resolve()


def leave(code: int) -> NoReturn:
    """End the process. A thread that hangs in a call is not waited for: its call is settled."""
    sys.stdout.flush()
    sys.stderr.flush()
    if threading.active_count() > 1:
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
