"""The live view under load: 25 clients that ask every 3 s, a run that tells 50 events a second.

Server and clients are processes of their own. The time of an answer is from the request's first
byte to the answer's last one, on a connection that is kept. What every client has seen is compared
with the database afterwards: each event once, in order.
"""

import hashlib
import math
import os
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlmodel import col, select

from app.admin import call_admin
from data.home import Home
from data.store import Reader
from data.tables import Event
from tests.bench import harness
from tests.bench.harness import BenchFailed, cpu_times, last_line, module, say, write_json
from tests.bench.live_clients import CLIENTS, EVERY_SECONDS, line
from tests.bench.live_server import FIRST, RATE, RUN
from tests.bench.startup import ended, first_page, wait_for_port
from tests.listening import free_port

GOAL_MS = 50.0
SECONDS, QUICK_SECONDS = 60.0, 9.0
LEAST_RATE = 0.95 * RATE  # with less the run was not as busy as it should have been
PATH = f"/v1/agent-runs/rsi/runs/{RUN}/live"
BUSY = {"dry_run": True, "rounds": 1000, "limits": {"max_model_cost_usd": 1000.0}, "seed": 5}


@dataclass(kw_only=True, slots=True, frozen=True)
class Figures:
    """What was measured; times in milliseconds."""

    answers: int
    p50: float
    p95: float
    p99: float
    slowest: float
    events: int
    events_per_second: float
    errors: list[str]
    load: float
    steal: float

    @property
    def passed(self) -> bool:
        """Whether the goal is reached and nothing was lost."""
        return self.p95 <= GOAL_MS and not self.errors

    def lines(self) -> list[str]:
        """The result as people read it."""
        whole = "each event once, in order" if not self.errors else f"e.g. {self.errors[0]}"
        verdict = "reached" if self.passed else "not reached"
        return [
            f"{CLIENTS} clients, every {EVERY_SECONDS:g} s, {self.events_per_second:.1f} events/s",
            f"{'answers':28}{self.answers:>12,}",
            *(
                f"{name:28}{value:>12.1f} ms"
                for name, value in (
                    ("p50", self.p50),
                    ("p95", self.p95),
                    ("p99", self.p99),
                    ("slowest", self.slowest),
                )
            ),
            f"{'errors':28}{len(self.errors):>12}  ({whole})",
            f"{f'goal p95 at most {GOAL_MS:g} ms':28}{verdict:>12}",
            f"load {self.load:.1f}, stolen {100 * self.steal:.1f}%",
        ]


def main(argv: list[str]) -> int:
    """Measure and print; 0 when the goal is reached without an error."""
    parser = ArgumentParser(prog="run.py bench live", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="default: %(default)g"
    )
    parser.add_argument("--quick", action="store_true", help="short and rough: shows that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there as well")
    args = parser.parse_args(argv)
    seconds = QUICK_SECONDS if args.quick else args.seconds
    figures = measure(seconds)
    print("\n".join(figures.lines()))
    if seconds < SECONDS:
        print(f"A claim needs {SECONDS:g} s.")
    found = {**asdict(figures), "clients": CLIENTS, "seconds": seconds, "goal_ms": GOAL_MS}
    write_json(args.json, {"bench": "live", **found, "passed": figures.passed})
    return 0 if figures.passed else 1


def measure(seconds: float) -> Figures:
    """Figures of a fresh server after so many seconds of clients."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="pawl-bench-") as folder:
        home = Home(path=Path(folder).resolve())
        where = ["--home", str(home.path), "--port", str(port)]
        with ended(module("live_server", *where)) as process:
            wait_for_port(process, port)
            first_page(port)
            call_admin(home.admin_socket, "start_run", run=RUN, brief="learn sums", **BUSY)
            say(f"{CLIENTS} clients follow for {seconds:g} s")
            began = cpu_times()
            clients = follow(port, home.owner_key.read_text().strip(), seconds)
            steal, load = harness.stolen(began, cpu_times()), os.getloadavg()[0]
        told = events_of(home)
    return figures_of(clients, told, load=load, steal=steal)


def follow(port: int, key: str, seconds: float) -> list[dict[str, Any]]:
    """What the clients saw, in a process of their own."""
    command = module("live_clients", str(port), key, PATH, str(seconds))
    found: Any = last_line(command, {}, seconds + 60)
    return list(found)


def figures_of(
    clients: Sequence[dict[str, Any]], told: Sequence[Event], *, load: float, steal: float
) -> Figures:
    """The clients' times, and their errors with what they missed."""
    times = sorted(1000 * seconds for client in clients for seconds in client["answers"])
    if not times:
        raise BenchFailed(f"no client got an answer: {clients[0]['errors'][:3]}")
    rate = rate_of(told)
    if rate < LEAST_RATE:
        raise BenchFailed(f"the run told {rate:.1f} events/s, not {RATE:g}: too busy a machine")
    return Figures(
        answers=len(times),
        p50=percentile(times, 50),
        p95=percentile(times, 95),
        p99=percentile(times, 99),
        slowest=times[-1],
        events=min(client["seen"] for client in clients),
        events_per_second=rate,
        errors=[*(error for one in clients for error in one["errors"]), *missed(clients, told)],
        load=load,
        steal=steal,
    )


def missed(clients: Sequence[dict[str, Any]], told: Sequence[Event]) -> list[str]:
    """Clients that saw something else than what the database has up to their last event."""
    so_far, hashes = hashlib.sha256(), {}
    for event in told:
        so_far.update(line(event.seq, event.kind, event.text))
        hashes[event.seq] = so_far.hexdigest()
    return [
        f"client {number} saw something else up to event {client['seen']}"
        for number, client in enumerate(clients)
        if hashes.get(client["seen"]) != client["sha256"]
    ]


def events_of(home: Home) -> list[Event]:
    """Every event of the run, in order."""
    reader = Reader(home.database)
    with reader.read() as session:
        query = select(Event).where(Event.run == RUN).order_by(col(Event.seq))
        found = list(session.exec(query))
    reader.close()
    return found


def rate_of(told: Sequence[Event]) -> float:
    """Events a second, from the first of those that were fed in to the last one."""
    fed = next(number for number, event in enumerate(told) if event.text.startswith(FIRST))
    first, last = (datetime.fromisoformat(event.at) for event in (told[fed], told[-1]))
    return (len(told) - 1 - fed) / (last - first).total_seconds()


def percentile(ordered: Sequence[float], share: float) -> float:
    """The least value that so many percent do not exceed."""
    return ordered[math.ceil(share / 100 * len(ordered)) - 1]


if __name__ == "__main__":
    harness.run(main)
