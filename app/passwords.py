"""Passwords: which are taken, how they are hashed, and whether one is right."""

import hashlib
import hmac
import secrets
import threading
import unicodedata

from app.errors import InvalidRequest

LOG_N, R, P = 15, 8, 3  # scrypt (RFC 7914): 32 MiB and some tenths of a second a try
SHORTEST, LONGEST = 12, 256
AT_ONCE = 2  # a flood of tries takes 64 MiB, not all memory
_turn = threading.Semaphore(AT_ONCE)


def check_password(password: str, name: str) -> None:
    """InvalidRequest when a password for the account `name` is too easy to guess."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise InvalidRequest(f"password: give {SHORTEST} to {LONGEST} characters")
    if len(set(password)) < 5:
        raise InvalidRequest("password: use at least 5 different characters")
    if name.lower() in password.lower() and len(password) < len(name) + SHORTEST:
        raise InvalidRequest("password: leave the account's name out of it")


def hash_password(password: str) -> str:
    """`scrypt$<log2 N>$<r>$<p>$<salt>$<hash>`, salt and hash in hex."""
    salt = secrets.token_bytes(16)
    return f"scrypt${LOG_N}${R}${P}${salt.hex()}${_scrypt(password, salt, LOG_N, R, P).hex()}"


def is_right(password: str, stored: str | None) -> bool:
    """Whether a password belongs to a stored hash; None takes as long as a wrong password."""
    _, log_n, r, p, salt, expected = (stored or NOBODY).split("$")
    found = _scrypt(password, bytes.fromhex(salt), int(log_n), int(r), int(p))
    return hmac.compare_digest(found.hex(), expected) and stored is not None


def _scrypt(password: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    text = unicodedata.normalize("NFKC", password[:LONGEST]).encode("utf-8", "surrogatepass")
    memory = 128 * r * (2**log_n + p + 2)
    with _turn:
        return hashlib.scrypt(text, salt=salt, n=2**log_n, r=r, p=p, maxmem=memory, dklen=32)


NOBODY = f"scrypt${LOG_N}${R}${P}${'00' * 16}${'00' * 32}"
