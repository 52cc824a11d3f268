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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from app import set_up
from app.options import PORTS, parse
from app.stopping import Stopping

if TYPE_CHECKING:
    from app.caller import Caller
    from app.opened import Opened
    from app.ports import Lent
    from app.service import Service
    from data.cassette import Cassette
    from data.home import Home
    from data.store import Store
    from engine.facts import Library
    from engine.scheduler import Engine, EngineSettings

ROOT = set_up.ROOT


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
    from app.demo import run_command
    from data.home import home_folder
    from engine.device import find_device

    return run_command(args, home_folder(), find_device().label, opened)


def link(args: argparse.Namespace) -> int:
    """Print a new one-time sign-in link of the running server."""
    from app.admin import call_admin
    from app.errors import ServiceError
    from data.home import home_folder, open_home

    try:
        print(call_admin(open_home(home_folder()).admin_socket, "link"))
    except ServiceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def administration(args: argparse.Namespace) -> int:
    """Keys, people and settings: on the running server where there is one."""
    from app.administration_cli import run_command
    from data.home import home_folder, open_home

    return run_command(args, open_home(home_folder()))


def models(args: argparse.Namespace) -> int:
    """Base models, models behind the gateway, a project's own caps: on the server where one is."""
    from app import bases, bases_cli
    from app.models_cli import run_command
    from data.home import home_folder, open_home
    from engine.models.base_files import BaseFiles

    home = open_home(home_folder())
    if args.action in bases_cli.ACTIONS:
        return bases_cli.run_command(args, home, BaseFiles(models=home.models), bases.commands)
    return run_command(args, home, money_commands)


def preset(args: argparse.Namespace) -> int:
    """List the presets, or look at one before it trains; 1 when it would be refused."""
    from data.home import home_folder, open_home
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
    from data.home import home_folder, open_home
    from engine.models.adapter_files import AdapterFiles

    home = open_home(home_folder())
    files = AdapterFiles(home, set_up.MODEL_FILE, set_up.MODEL_SHA256)
    return run_command(args, Desk(home=home, port=files, more=lambda s: commands(s, home)))


def upkeep(args: argparse.Namespace) -> int:
    """Back the home up, restore it, or clean it."""
    from app.upkeep import run_command
    from data.home import Home, home_folder

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
    from data.home import home_folder

    return run_command(args, home_folder())


def deploy(args: argparse.Namespace) -> int:
    """Deploy a version on the running server; 1 when it is refused or does not answer."""
    from app.deploy_cli import run_command
    from data.home import home_folder, open_home

    return run_command(args, open_home(home_folder()))


def cassette(args: argparse.Namespace) -> int:
    """Write a finished run into a file, or show such a file; 1 when it is refused."""
    from app.cassette import export, load
    from data.cassette import CassetteRefused
    from data.home import Home, home_folder

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

    from app.cassette import begin_replay
    from app.opened import Opened

    with tempfile.TemporaryDirectory(prefix="pawl-replay-") as folder:
        os.environ["PAWL_HOME"] = folder
        stopping, begin = Stopping(), functools.partial(begin_replay, recorded, args.speed)
        with (
            contextlib.suppress(KeyboardInterrupt),
            Opened(stopping, begin, admin_commands, "127.0.0.1", args.port) as pawl,
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
    from data.home import home_folder
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
    from data.home import home_folder
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


def opened(
    stopping: Stopping,
    host: str | None = None,
    port: int | None = None,
    allowed_hosts: str | None = None,
) -> Opened:
    """The home's server in this process, with the engine at work in it."""
    from app.opened import Opened

    return Opened(stopping, begin_engine, admin_commands, host, port, allowed_hosts)


def begin_engine(pawl: Opened, ends: contextlib.ExitStack) -> tuple[Service, Engine]:
    """The service over an opened home, and the engine that works on its rows; `ends` stops it."""
    from app.service import Service
    from engine.device import find_device
    from engine.sandbox.reaper import Reaper
    from engine.scheduler import Engine
    from engine.verdicts import why_no_sandbox

    service = Service(pawl.store, find_device().label, why_no_sandbox)
    engine = Engine(pawl.store, pawl.home, library(), engine_settings())
    ends.callback(engine.stop)
    service.watch(engine.machine)
    pawl.access.settings.devices = engine.machine.devices
    service.lend(lent(engine))
    service.look_at_recipes(recipe_faults(pawl.home, engine))
    reaper = Reaper(pawl.home.path)
    reaper.start()
    ends.callback(reaper.stop)
    return service, engine


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


def admin_commands(pawl: Opened) -> dict[str, Callable[..., Any]]:
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


def tell_others(pawl: Opened) -> None:
    """Say how other machines reach a server that is open to them, and what that means."""
    from app.network import PLAIN_HTTP, is_loopback, urls_for_others

    assert pawl.listener is not None
    host, port = pawl.listener.getsockname()[:2]
    if not is_loopback(host):
        names = pawl.allowed_hosts | pawl.access.settings.network.hosts
        print(f"Others reach it at {', '.join(urls_for_others(names, port))}", flush=True)
        print(PLAIN_HTTP, file=sys.stderr, flush=True)


def serve_console(pawl: Opened, stopping: Stopping) -> None:
    """Serve the pages and doors of an opened home until SIGTERM or Ctrl-C."""
    from pages import server

    assert pawl.listener is not None
    front = server.Front(
        service=pawl.service,
        access=pawl.access,
        port=pawl.listener.getsockname()[1],
        allowed_hosts=pawl.allowed_hosts,
        ready=readiness(pawl),
    )
    server.serve_console(front, pawl.listener, stopping)


def readiness(pawl: Opened) -> tuple[dict[str, Callable[[], str]], dict[str, Callable[[], str]]]:
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


def open_browser(url: str) -> None:
    """Open the console where there is a screen to show it on."""
    import webbrowser

    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin":
        threading.Timer(1.5, webbrowser.open, [url]).start()


def leave(code: int) -> NoReturn:
    """End the process. A thread that hangs in a call is not waited for: its call is settled."""
    sys.stdout.flush()
    sys.stderr.flush()
    if threading.active_count() > 1:
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
