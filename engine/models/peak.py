"""The most memory that this process takes for a piece of work, as measured."""

from contextlib import suppress
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # the kernel's word for it in clear_refs
CONTEXT = 500_000_000  # bytes of a card that the driver keeps for a process, about


def begin_measuring(device: str) -> None:
    """Forget the peaks of before."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        CLEAR.write_text(RESET_PEAK)


def measured_peak(device: str) -> int | None:
    """Bytes at the peak since then: of the card, or of main memory; None where nobody tells."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.max_memory_reserved(device)) + CONTEXT
    try:
        words = STATUS.read_text().partition("VmHWM:")[2].split()
        return int(words[0]) * 1024
    except (OSError, IndexError, ValueError):
        return None
