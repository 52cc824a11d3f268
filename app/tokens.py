"""Tokens that are made at random, stored by their hash, and good until a moment."""

import hashlib
import secrets
from datetime import UTC, datetime, timedelta


def new_token() -> str:
    """43 characters that nobody can guess."""
    return secrets.token_urlsafe(32)


def new_key(key_id: str) -> str:
    """The text of a new key: `pawl_<id>_<32 random bytes>`."""
    return f"pawl_{key_id}_{new_token()}"


def digest(token: str) -> str:
    """What is stored of a token: its SHA-256 in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


def from_now(span: timedelta) -> str:
    """The moment `span` from now, written like every time in the tables."""
    moment = datetime.now(UTC) + span
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
