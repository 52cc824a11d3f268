"""From the start of the process to the first page: Pawl's server against a bare NiceGUI page.

Both run in the same environment with nothing cached but Python's bytecode; Pawl opens a home that
exists already. The first page is what a browser without a session gets: the sign-in page.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator

from tests.bench.harness import (
    ROOT,
    BenchFailed,
    Goal,
    Measured,
    Side,
    compare,
    finish,
    module,
    options,
    run,
)
from tests.listening import free_port

GOAL = Goal(at_most=2.0)
PATIENCE_SECONDS = 60.0
HELLO = """
from nicegui import ui

@ui.page("/")
def page() -> None:
    ui.label("hello")

ui.run(host="127.0.0.1", port={port}, reload=False, show=False, show_welcome_message=False)
"""


def main(argv: list[str]) -> int:
    """Compare and print; 0 when the goal is reached."""
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--side", choices=("pawl", "hello"), help="measure one side alone")
    args = parser.parse_args(argv)
    if args.side:
        print(json.dumps(measure(args.side)))
        return 0
    with tempfile.TemporaryDirectory(prefix="pawl-bench-") as home:
        ratio = compare(
            Side(
                name="Pawl, to its first page",
                command=module("startup", "--side", "pawl"),
                env={"PAWL_HOME": home},
            ),
            Side(name="a bare NiceGUI page", command=module("startup", "--side", "hello")),
            value="seconds",
            unit="s",
            goal=GOAL,
            pairs=min(args.pairs, 3) if args.quick else args.pairs,
            differ=differ,
            again=not args.quick,
        )
    return finish("startup", args, [ratio])


def measure(side: str) -> Measured:
    """Seconds from the start of a server's process to its first page, and the page's status."""
    port = free_port()
    commands = {
        "pawl": [str(ROOT / "run.py"), "serve", "--no-browser", "--port", str(port)],
        "hello": ["-c", HELLO.format(port=port)],
    }
    began = time.perf_counter()
    with ended([sys.executable, *commands[side]]) as process:
        wait_for_port(process, port)
        status, size = first_page(port)
        return {"seconds": time.perf_counter() - began, "status": status, "bytes": size}


@contextlib.contextmanager
def ended(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended in order on the way out."""
    hidden = ("PYTEST_", "NICEGUI_")  # NiceGUI behaves otherwise when it sees a test around it
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
        try:
            yield process
        except BenchFailed as failed:
            log.seek(0)
            raise BenchFailed(f"{failed}\n{log.read().decode()[-2000:]}") from None
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(25)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_port(process: subprocess.Popen[bytes], port: int) -> None:
    """Return as soon as the port takes connections; BenchFailed when it never does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise BenchFailed(f"the server ended with code {process.returncode}")
        time.sleep(0.005)
    raise BenchFailed(f"no server after {PATIENCE_SECONDS:.0f} s")


def first_page(port: int) -> tuple[int, int]:
    """Status and size of the page that a browser gets which has never been there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_SECONDS) as page:
            return page.status, len(page.read())
    except OSError as error:
        raise BenchFailed(f"no page: {error}") from None


def differ(one: Measured, other: Measured) -> str | None:
    """Both sides must have answered with a page."""
    for result in (one, other):
        if result["status"] != 200 or not result["bytes"]:
            return f"status {result['status']} with {result['bytes']} bytes"
    return None


if __name__ == "__main__":
    run(main)
