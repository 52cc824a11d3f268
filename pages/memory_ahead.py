"""The line of the start form that says what memory a run takes, beside what there is."""

from app.shapes import MemoryAhead

GB = 1e9
DRY = "Memory: none here, since a dry run trains nothing."


def memory_line(found: MemoryAhead | None, dry: bool) -> str:
    """What a run takes and what is free; nothing where nobody knows."""
    if dry:
        return DRY
    if found is None:
        return ""
    free = f"{_gb(found.free)} of the {_gb(found.total)} of {found.device} is free"
    return f"Memory: {_takes(found)}; {free}.{_waits(found)}"


def _takes(found: MemoryAhead) -> str:
    if found.measured is not None:
        return f"about {_gb(found.measured)}, as measured in {found.measured_in}"
    return f"at most {_gb(found.usual)}, or {_gb(found.least)} with a quarter of a batch at a time"


def _waits(found: MemoryAhead) -> str:
    if found.least > found.total:
        return " It cannot start here: choose a smaller base model."
    return "" if found.least <= found.free else f" It would wait until {_gb(found.least)} is free."


def _gb(count: int) -> str:
    return f"{count / GB:.1f} GB"
