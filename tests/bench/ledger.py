"""The budget check of a call, reserve then settle, at 50 calls a second: p95 at most 10 ms.

Both sides make the same calls through the journal as the gateway does, against the accounts of a
run and its project; one on a new database, the other after 100,000 entries of the same run and
round. The second may not be slower than the first beyond what chance makes of it.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert
from sqlmodel import Session, col, select

from data import ledger
from data.store import Store
from data.tables import Account, GatewayModel, LedgerEntry, ModelCall, Project, Reservation, now
from engine.models import calls
from engine.models.calls import Answered, Order, Slot
from engine.models.prices import Usage
from engine.types import Ask
from tests.bench.harness import Goal, Measured, Side, compare, finish, module, options, run

A_SECOND = 50
CALLS, QUICK_CALLS = 500, 100
ENTRIES, QUICK_ENTRIES = 100_000, 20_000
ACCOUNTS = ["run:a", "project:p"]
ENTRIES_A_CALL = 2 * len(ACCOUNTS)
MOST_MS = 10.0
GOAL = Goal(at_most=1.5)  # a slower search would be many times as slow
SIDES = ("full", "empty")


def main(argv: list[str]) -> int:
    """Compare and print; 0 when the check is quick enough and stays so."""
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--side", choices=SIDES, help="measure one side alone")
    args = parser.parse_args(argv)
    entries = QUICK_ENTRIES if args.quick else ENTRIES
    if args.side:
        past = entries if args.side == "full" else 0
        print(json.dumps(measure(past, QUICK_CALLS if args.quick else CALLS)))
        return 0
    more = ["--quick"] if args.quick else []
    ratio = compare(
        Side(name=f"after {entries:,} entries", command=module("ledger", "--side", "full", *more)),
        Side(name="new ledger", command=module("ledger", "--side", "empty", *more)),
        value="p95_ms",
        unit="ms, p95 of reserve and settle",
        goal=GOAL,
        pairs=min(args.pairs, 3) if args.quick else args.pairs,
        differ=differ,
        warm_up=False,
        again=not args.quick,
    )
    code = finish("ledger", args, [ratio], p95_ms=ratio.ours_median, last=ratio.last)
    quick = max(ratio.ours_median, ratio.theirs_median) <= MOST_MS
    print(f"goal at most {MOST_MS:g} ms {'reached' if quick else 'not reached':>20}")
    return code if quick else 1


def measure(entries: int, count: int) -> Measured:
    """Times of `count` checks at a steady pace, in milliseconds, and what the ledger says then."""
    with tempfile.TemporaryDirectory(prefix="pawl-bench-") as folder:
        store = Store(Path(folder) / "pawl.db")
        store.write(partial(begin, entries))
        with ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(check, store, number) for number in paced(count)]
            times = sorted(one.result() for one in waiting)
        with store.read() as session:
            found = session.exec(select(func.count(col(LedgerEntry.id)))).one()
            account = session.get_one(Account, ACCOUNTS[0])
        store.close()
    return {
        "p95_ms": times[int(0.95 * count)],
        "p50_ms": statistics.median(times),
        "p99_ms": times[int(0.99 * count)],
        "new_entries": found - entries,
        "settled": account.model_settled,
        "reserved": account.model_reserved,
    }


def check(store: Store, number: int) -> float:
    """Milliseconds of the two commits that a call needs."""
    slot = Slot(
        project_id="p",
        accounts=ACCOUNTS,
        role="operator",
        run="a",
        round=1,
        step="plan",
        round_cap=10**6,
    )
    messages = [{"role": "user", "content": "17 + 25 = ?"}]
    order = Order(ask=Ask(key=f"k{number}", messages=messages, max_tokens=64), least_tokens=64)
    usage = Usage(tokens_in=12, cached=0, tokens_out=4)
    answered = Answered(text="42", finish="stop", usage=usage, raw={})
    began = time.perf_counter()
    opened = store.write(lambda session: calls.open_call(session, slot, "m", order))
    store.write(lambda session: calls.settle_call(session, opened, answered))
    return 1000 * (time.perf_counter() - began)


def paced(count: int) -> Iterator[int]:
    """Numbers, one every fiftieth of a second."""
    began = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, began + number / A_SECOND - time.perf_counter()))
        yield number


def begin(entries: int, session: Session) -> None:
    """A run and its project with caps, and what calls before have left behind."""
    session.add(Project(id="p", workspace_id="w", name="P"))
    session.add(GatewayModel(name="m", input_micro_per_mtok=3, output_micro_per_mtok=15))
    session.flush()
    limits = {"max_model_cost_usd": 100.0, "max_cost_usd": 200.0, "max_model_requests": 10**6}
    for account in ACCOUNTS:
        ledger.open_account(session, account, "p", limits)
    past = range(1, entries // ENTRIES_A_CALL + 1)
    if past:
        connection = session.connection()
        connection.execute(insert(Reservation), [_reservation(number) for number in past])
        connection.execute(insert(ModelCall), [_call(number) for number in past])
        connection.execute(
            insert(LedgerEntry), [one for number in past for one in _entries(number)]
        )


def _reservation(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "project_id": "p",
        "run": "a",
        "kind": "model",
        "accounts": ACCOUNTS,
        "amount": 0,
        "actual": 0,
        "state": "settled",
        "created_at": now(),
    }


def _call(number: int) -> dict[str, Any]:
    return {
        "project_id": "p",
        "run": "a",
        "round": 1,
        "step": "plan",
        "call_key": f"past{number}",
        "attempt": 1,
        "role": "operator",
        "model": "m",
        "simulated": False,
        "request_hash": "0" * 16,
        "reservation": number,
        "status": "answered",
        "usage": {},
        "price": {},
        "cost": 0,
        "uncertain": False,
        "started_at": now(),
    }


def _entries(number: int) -> Iterator[dict[str, Any]]:
    for account in ACCOUNTS:
        for kind in ("reserve", "settle"):
            yield {
                "account": account,
                "reservation": number,
                "kind": kind,
                "category": "model",
                "amount": 0,
                "at": now(),
            }


def differ(one: Measured, other: Measured) -> str | None:
    """How two results differ, or None."""
    for name in ("new_entries", "settled", "reserved"):
        if one[name] != other[name]:
            return f"{name} are {one[name]} and {other[name]}"
    return None


if __name__ == "__main__":
    run(main)
