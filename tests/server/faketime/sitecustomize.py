"""Another way to sleep, loaded at the start of a Python whose clock libfaketime tells.

Python sleeps until a moment of the monotonic clock; libfaketime takes that for a bad argument.
"""

import threading
import time


def sleep(seconds: float) -> None:
    threading.Event().wait(seconds)


time.sleep = sleep  # type: ignore[assignment]
