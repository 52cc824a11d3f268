"""Waiting until something is so, for as long as a busy machine may take."""

import time
from collections.abc import Callable
from typing import Any


def eventually(look: Callable[[], Any], seconds: float = 120, pause: float = 0.02) -> Any:
    """What `look` gives, as soon as that is something; after `seconds` it fails."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"nothing came of it in {seconds:.0f} s"
        time.sleep(pause)
    return found


def soon(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether something comes true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
