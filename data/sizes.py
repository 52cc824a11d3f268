"""How much room the parts of a home take."""

import os
from pathlib import Path

PARTS = {
    "database": ("pawl.db*",),
    "models": ("models",),
    "checkpoints": ("checkpoints",),
    "runs": ("runs",),
    "logs": ("logs",),
    "vllm": ("vllm",),
    "backups": ("backups", "before-restore-*"),
}


def sizes(home: Path) -> dict[str, int]:
    """Bytes by part; a part that is not there has 0."""
    return {
        part: sum(size_of(path) for pattern in patterns for path in home.glob(pattern))
        for part, patterns in PARTS.items()
    }


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; what a link points at is not counted."""
    if not path.is_dir() or path.is_symlink():
        return _bytes(path)
    return sum(_bytes(Path(at) / name) for at, _, names in os.walk(path) for name in names)


def _bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:  # removed meanwhile
        return 0


def as_text(count: int) -> str:
    """A size for people: 1.2 GB, 34.5 MB, 6 kB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{-(-count // 1000)} kB"
