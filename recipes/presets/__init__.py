"""Presets: how a run of a kind is set up, one TOML file each, named by its file."""

import tomllib
from itertools import takewhile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def preset_names() -> list[str]:
    """The names of all presets."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def load_preset(name: str) -> dict[str, Any]:
    """The settings of a preset; a ValueError names the file and line that cannot be read."""
    file = FOLDER / f"{name}.toml"
    try:
        return tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"preset {file.name}: {error}") from None


def preset_words(name: str) -> str:
    """What a preset says of itself: the comment lines at its top."""
    lines = (FOLDER / f"{name}.toml").read_text().splitlines()
    return " ".join(
        line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines)
    )
