"""Trying a model before a run does: its address by rule, and one tiny paid call."""

import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

from sqlmodel import col, select

from data import ledger
from data.store import Store
from data.tables import ModelCall, now
from engine.errors import EngineError
from engine.models.addresses import AddressRefused, check_addresses, check_url
from engine.models.calls import Slot
from engine.models.gateway import Gateway
from engine.types import Ask, Message

STEP = "model test"
TOKENS = 16
READ_SECONDS = 20.0
WORDS: list[Message] = [{"role": "user", "content": "Answer with the word ready."}]


def check_address(base_url: str, local: bool) -> None:
    """ValueError when a model may not have this address; a name that nobody knows now may."""
    try:
        check_url(base_url, local=local)
        host = urlsplit(base_url).hostname or ""
        check_addresses(host, _addresses(host), local=local)
    except AddressRefused as refused:
        raise ValueError(str(refused)) from None


def try_model(store: Store, project_id: str, model: str) -> dict[str, Any]:
    """One call without a second try, reserved and settled on the project's account.

    Gives `text`, or `error` when there was none, with `status`, `cost` in micro-dollars, and
    whether that cost is `uncertain`: all that was reserved, since nobody can tell.
    """
    account = f"project:{project_id}"
    store.write(lambda session: ledger.open_account(session, account, project_id))
    slot = Slot(project_id=project_id, accounts=[account], role="operator", step=STEP)
    ask = Ask(key=now(), messages=WORDS, max_tokens=TOKENS)
    gateway = Gateway(store, 0.0, read_seconds=READ_SECONDS, retries=0)
    text, error = None, None
    try:
        text = gateway.call(slot, model, ask).text
    except EngineError as failed:
        error = str(failed)
    with store.read() as session:
        query = select(ModelCall).where(ModelCall.step == STEP, col(ModelCall.run).is_(None))
        made = [one for one in session.exec(query) if one.call_key.startswith(ask.key)]
    return {
        "model": model,
        "text": text,
        "error": error,
        "status": made[0].status if made else "refused",
        "cost": (made[0].cost or 0) if made else 0,
        "uncertain": made[0].uncertain if made else False,
        "usage": made[0].usage if made else {},
    }


def _addresses(host: str) -> list[str]:
    """Where a name leads at the moment; a public placeholder for one that is not known."""
    try:
        return [str(one[4][0]) for one in socket.getaddrinfo(host, None)]
    except OSError:
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            return ["8.8.8.8"]
