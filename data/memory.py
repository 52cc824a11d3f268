"""Main memory: how much this machine has, and how much of it is free."""

import os
from pathlib import Path


def memory() -> tuple[int, int]:
    """Total and available bytes of this machine, or of the container around us if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo, container = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
    found = [line.split() for line in meminfo.read_text().splitlines()] if meminfo.exists() else []
    free = next((int(words[1]) * 1024 for words in found if words[0] == "MemAvailable:"), total)
    try:
        limit = int((container / "memory.max").read_text())
        used = int((container / "memory.current").read_text())
    except (OSError, ValueError):  # no such limit, or "max"
        return total, free
    return min(total, limit), min(free, max(0, limit - used))
