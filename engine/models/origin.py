"""What a base model is called in other places, so that an adapter finds its base there."""

from dataclasses import dataclass
from pathlib import Path

from data.files import read_manifest
from engine.models.registry import EMBEDDED

ELSEWHERE = {EMBEDDED: "HuggingFaceTB/SmolLM2-135M-Instruct"}


@dataclass(kw_only=True, slots=True, frozen=True)
class Origin:
    """A base's name and revision on a hub where they are known, else its name here."""

    name: str
    revision: str | None = None
    exact: bool = True  # false: the weights here were made from another form of it
    source: str | None = None  # where they came from, in words
    licence: str | None = None


def origin_of(base: Path) -> Origin:
    """Read from the manifest of a base's folder."""
    about = read_manifest(base)["about"]
    told = {"source": about.get("source"), "licence": about.get("licence")}
    if base.name in ELSEWHERE:
        return Origin(name=ELSEWHERE[base.name], exact=False, **told)
    if about.get("hub"):
        return Origin(name=about["hub"], revision=about.get("hub_revision"), **told)
    return Origin(name=base.name, **told)
