"""Clients that follow a run over HTTP, each asking every 3 s for what came after its last event."""

import hashlib
import http.client
import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

CLIENTS = 25
EVERY_SECONDS = 3.0


@dataclass(slots=True)
class Client:
    """What one client has seen: answer times in seconds, its last event, a hash of all of them."""

    answers: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    seen: int = 0
    state: str = ""
    sha256: str = ""


def main(port: int, key: str, path: str, seconds: float) -> list[dict[str, Any]]:
    """Follow with all clients for that long, their starts spread over one interval."""
    wait_until_at_work(port, key, path)
    began = time.monotonic() + 0.5
    clients = [Client() for _ in range(CLIENTS)]
    threads = []
    for number, client in enumerate(clients):
        starts = began + number * EVERY_SECONDS / CLIENTS
        given = (client, port, key, path, starts, began + seconds)
        threads.append(threading.Thread(target=follow, args=given))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [asdict(client) for client in clients]


def wait_until_at_work(port: int, key: str, path: str) -> None:
    """Ask until the run is at work; by then the door has made what its first request waits for."""
    while True:
        first = Client()
        follow(first, port, key, path, time.monotonic(), time.monotonic() + 0.1)
        if first.errors:
            raise SystemExit(first.errors[0])
        if first.state == "running":
            return


def follow(client: Client, port: int, key: str, path: str, starts: float, ends: float) -> None:
    """Poll until `ends`, on one connection; whatever is no good answer is an error."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    told = hashlib.sha256()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    due = starts
    while due < ends:
        time.sleep(max(0.0, due - time.monotonic()))
        asked = time.perf_counter()
        try:
            connection.request("GET", f"{path}?since={client.seen}", headers=headers)
            answer = connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            client.errors.append(repr(error))
            connection.close()
        else:
            client.answers.append(time.perf_counter() - asked)
            if answer.status == 200:
                page = json.loads(raw)
                take(client, page, told)
                if page["has_more"]:
                    continue
            else:
                client.errors.append(f"status {answer.status}")
        due += EVERY_SECONDS
    connection.close()
    client.sha256 = told.hexdigest()


def take(client: Client, page: dict[str, Any], told: Any) -> None:
    """Count a page's events; each must be the one that follows the last."""
    for event in page["events"]:
        if event["seq"] != client.seen + 1:
            client.errors.append(f"event {event['seq']} came after {client.seen}")
        client.seen = event["seq"]
        told.update(line(event["seq"], event["kind"], event["text"]))
    client.state = page["run_state"]
    if page["next_cursor"] != client.seen:
        client.errors.append(f"the cursor is {page['next_cursor']} after {client.seen}")


def line(seq: int, kind: str, text: str) -> bytes:
    """An event as it enters the hash."""
    return f"{seq} {kind}: {text}\n".encode()


if __name__ == "__main__":
    port, key, path, seconds = sys.argv[1:]
    print(json.dumps(main(int(port), key, path, float(seconds))))
