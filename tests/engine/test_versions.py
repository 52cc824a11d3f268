"""Versions of a run: the weights that they were made of, or none."""

from types import SimpleNamespace
from typing import Any

import pytest

from data.tables import Version
from engine.errors import ModelUnavailable
from engine.types import ModelRef
from engine.versions import describe, model_of


def tools_with(revision: str) -> Any:
    """A machine whose base models all have that revision."""
    return SimpleNamespace(
        model=lambda name: ModelRef(base=name, path="/models", revision=revision)
    )


def test_a_base_is_held_to_the_weights_that_it_was_measured_with() -> None:
    version = Version(
        project_id="p",
        name="base",
        role="baseline",
        base_model="m",
        base_revision="old",
        harness="h",
        version_hash="v",
    )
    described = describe(version)
    assert model_of(tools_with("old"), described).revision == "old"
    with pytest.raises(ModelUnavailable, match="revision new, than before, old: add the earlier"):
        model_of(tools_with("new"), described)


def test_a_description_without_a_revision_still_works() -> None:
    described = {"name": "base", "base": "m", "adapter": None, "hash": "v"}
    assert model_of(tools_with("new"), described).revision == "new"
