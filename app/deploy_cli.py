"""What `run.py deploy` asks for and prints."""

import argparse
import sys
import time

from app.admin import call_admin
from app.administration import LOCAL_OWNER
from app.administration_cli import carry_out
from app.job_shapes import JobItem
from app.service import Service
from data.home import Home
from data.store import Reader

PATIENCE_SECONDS = 300.0  # until an endpoint has shown that it answers


def run_command(args: argparse.Namespace, home: Home) -> int:
    """Deploy a version on the running server and wait until it answers; 1 when it does not."""
    interrupted = "It goes on: see it under Inference in the console."
    return carry_out(lambda: _deploy(args, home), interrupted=interrupted)


def _deploy(args: argparse.Namespace, home: Home) -> int:
    given = {"version": args.version, "name": args.name}
    job = str(call_admin(home.admin_socket, "deploy", **given))
    item = _wait(home, job)
    inference = item.inference
    assert inference is not None
    if item.status not in ("running", "starting", "queued"):
        print(f"{inference.model} is {item.status}: {item.reason}", file=sys.stderr)
        return 1
    print(f"{inference.model} is deployed by job {job} and {inference.state}.")
    if item.reason:
        print(f"It answers later: {item.reason}.")
    url = (home.server() or {}).get("url")
    print(f"Call it with any OpenAI client: base_url {url}/v1, model {inference.model}")
    return 0


def _wait(home: Home, job: str) -> JobItem:
    """The job once it has answered, failed, or taken too long."""
    reader = Reader(home.database)
    try:
        service = Service(reader, "")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            item = service.job(LOCAL_OWNER, job)
            if item.status not in ("queued", "starting") or time.monotonic() > deadline:
                return item
            time.sleep(0.2)
    finally:
        reader.close()
