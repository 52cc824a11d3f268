"""The base models that can be trained on this server, by registry name."""

from app import job_shapes as shapes
from data.files import MANIFEST
from data.home import Home
from recipes.presets import load_preset, preset_names


def base_models(home: Home) -> set[str]:
    """Models that presets name (the embedded one is made on first use), and those in the home."""
    named = {load_preset(name).get("base_model") for name in preset_names()}
    there = {folder.name for folder in home.models.glob("*") if (folder / MANIFEST).is_file()}
    return there | {name for name in named if name is not None}


def training_models(home: Home) -> shapes.TrainingModelPage:
    """Every base model with the ways in which it can be trained."""
    items = [
        shapes.TrainingModel(name=name, recipes=["sft"], simulated=name.startswith("sim/"))
        for name in sorted(base_models(home))
    ]
    return shapes.TrainingModelPage(items=items)
