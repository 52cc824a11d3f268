"""How many requests a key or an address may send at once, and how fast more may follow."""

import threading
import time

REMEMBERED = 10_000  # names; the one that was quiet longest is forgotten first


class Rate:
    """`burst` requests at once for each name, then `per_second`; kept in memory alone."""

    def __init__(self, *, burst: int, per_second: float) -> None:
        self._burst, self._per_second = burst, per_second
        self._used: dict[str, tuple[float, float]] = {}  # name -> how full, and when
        self._lock = threading.Lock()

    def take(self, name: str) -> float:
        """Count a request: 0, or the seconds until there is room for it."""
        with self._lock:
            at = time.monotonic()
            used, before = self._used.pop(name, (0.0, at))
            used = max(0.0, used - (at - before) * self._per_second)
            room = used + 1 <= self._burst
            self._used[name] = (used + 1 if room else used, at)
            if len(self._used) > REMEMBERED:
                del self._used[next(iter(self._used))]
            return 0.0 if room else (used + 1 - self._burst) / self._per_second
