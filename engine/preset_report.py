"""What a preset needs and trains on, told in lines before anything is trained."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from data.memory import memory
from engine.cards import read_cards
from engine.config import RunConfig, read_config
from engine.facts import Library
from engine.first_batch import SeenRow, example_rows, see_rows, too_long, trained_share
from engine.lint import Place, lint_recipe
from engine.models import simulated
from engine.models.memory import size
from engine.needs import run_need
from engine.types import Domain

SHOWN = 2  # rows of the first batch
IDS = 48  # of a row that are shown

Say = Callable[[str], None]


def report(
    preset: Mapping[str, Any], base: str | None, models: Path, library: Library, say: Say
) -> bool:
    """Say what a preset is refused for, the memory it needs, and how its first rows look.

    Returns whether it is refused. Without the base's files only its own settings are looked at.
    """
    name = base or preset.get("base_model")
    if name in simulated.MODELS:
        say(f"{name} is simulated: nothing is trained")
        return False
    if base is not None and not _is_here(models / base):
        say(f"refused: there is no base model {base}; there are {_bases(models)}")
        return True
    folder = models / str(name) if name else None
    if sized := preset.get("sized_for"):
        say(f"made for {sized['card_gb']} GB; a base of that size needs {sized['needs_gb']} GB")
    if name is None:
        say("it names no base model: give --base to have its memory, layers and tokens looked at")
    if folder is not None and not _is_here(folder):
        say(f"{name} is not here yet: its sizes, tokens and layers are not looked at")
        folder = None
    place = _place()
    found = lint_recipe(preset.get("lora") or {}, folder, place)
    for line in found.notes:
        say(line)
    domain = library.domains[preset.get("domain", "arith")]
    refusals = [*found.refusals, *_read_faults(preset, domain, found.refusals)]
    if folder is not None and not refusals:
        config = dict(preset)
        need = run_need(
            models, library, domain.name, folder.name, config, place.device, place.precision
        )
        say(f"for rows of this domain about {size(need.usual)} at most" if need else "")
        refusals += _tell_rows(folder, read_config(config, domain), domain, say)
    for line in refusals:
        say(f"refused: {line}")
    if not refusals:
        say(_verdict(name, folder))
    return bool(refusals)


def _verdict(name: Any, folder: Path | None) -> str:
    """What can be said of a preset that nothing speaks against."""
    if folder is not None:
        return "it may train, and its adapter can be served"
    how = f"add {name}" if name else "give --base"
    return f"whether it fits and can be served: {how}"


def _is_here(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def _bases(models: Path) -> str:
    there = sorted(one.name for one in models.glob("[!.]*") if _is_here(one))
    return ", ".join(there) or "none yet: python3 run.py model add-base"


def _read_faults(preset: Mapping[str, Any], domain: Domain, refusals: tuple[str, ...]) -> list[str]:
    if refusals:
        return []
    try:
        read_config(dict(preset), domain)
    except ValueError as wrong:
        return [str(wrong)]
    return []


def _tell_rows(folder: Path, config: RunConfig, domain: Domain, say: Say) -> list[str]:
    count = min(config.lora.batch_size, 64)
    rows = see_rows(folder, example_rows(domain, config.families, config.harness, count))
    long = too_long(rows, config.lora.max_length)
    tokens = sum(len(row.ids) for row in rows)
    say(f"a batch of {count} worked answers: {tokens} tokens, {trained_share(rows):.0%} trained")
    for row in rows[:SHOWN]:
        say(_as_lines(row))
    if long == len(rows):
        most = config.lora.max_length
        return [f"lora.max_length: every row is longer than {most} tokens: give more"]
    if long:
        say(f"{long} of {count} rows are longer than lora.max_length and would be left out")
    return []


def _as_lines(row: SeenRow) -> str:
    """Text with the part that carries loss marked, then its ids with the same mark."""
    ids = [str(number) for number in row.ids]
    before, trained = ids[: row.start], ids[row.start :]
    left = f"... {' '.join(before[-IDS:])}" if len(before) > IDS else " ".join(before)
    more = " ..." if len(trained) > IDS else ""
    return f"  {str(row)!r}\n  {left} [{' '.join(trained[:IDS])}{more}]"


def _place() -> Place:
    cards = read_cards()
    if cards:
        return Place(device="cuda", precision="bfloat16", memory=cards[0].total)
    total, _ = memory()
    return Place(device="cpu", precision="float32", memory=total)
