"""What a caller may ask of a training without a loop, checked field by field."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from app.caps import whole
from app.errors import InvalidTrainSpec, Unsupported
from app.train_rows import checked_rows
from recipes.domains import DOMAINS
from recipes.external import EXTERNAL
from recipes.presets import load_preset, preset_names

RECIPE = "sft"
GUARD = "guard"
RUNNER = ("runner", "command", "resources", "timeout_sec")  # a way to train that is not here
MOST_TASKS = 2000
MOST_TAGS, LONGEST_TAG = 32, 200
LARGEST_SEED = 2**31 - 1
Whole = Annotated[int, BeforeValidator(whole)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Data(_Part):
    rows: list[Any] | None = None
    upload: str | None = None
    dataset: str | None = None


class Lora(_Part):
    rank: Whole | None = Field(default=None, ge=1, le=256)
    alpha: Whole | None = Field(default=None, ge=1, le=1024)  # twice the rank without one
    dropout: float | None = Field(default=None, ge=0, lt=1)


class Training(_Part):
    epochs: float | None = Field(default=None, gt=0, le=100)
    learning_rate: float | None = Field(default=None, gt=0, le=1)
    batch_size: Whole | None = Field(default=None, ge=1, le=1024)
    max_length: Whole | None = Field(default=None, ge=16, le=131_072)
    warmup_steps: Whole | None = Field(default=None, ge=0, le=100_000)
    checkpoint_seconds: float | None = Field(default=None, ge=0, le=3600)
    seed: Whole | None = Field(default=None, ge=0, le=LARGEST_SEED)


class Evaluate(_Part):
    """On which tasks base and adapter are compared: a domain's fresh ones, or a fixed suite's."""

    suite: str
    n: Whole = Field(default=100, ge=1, le=MOST_TASKS)
    families: list[dict[str, Any]] | None = None  # of a domain: {"id", parameters}
    max_tokens: Whole | None = Field(default=None, ge=1, le=4096)


class Spec(_Part):
    """A training: base model and rows in, checkpoint and scores out."""

    base_model: str
    recipe: str | None = None
    data: Data
    lora: Lora = Lora()
    training: Training = Training()
    evaluate: Evaluate | None = None
    tags: dict[str, Any] | None = None
    options: dict[str, Any] | None = None  # of which the tags are read
    name: str | None = None


@dataclass(kw_only=True, slots=True, frozen=True)
class CheckedTraining:
    """A training that passed every check; `spec` is what its job records, `rows` its JSON lines."""

    spec: dict[str, Any]
    rows: bytes
    tags: dict[str, str]


def check_training(given: object, base_models: Collection[str]) -> CheckedTraining:
    """Check a spec; InvalidTrainSpec names the field, Unsupported what is not offered here."""
    if not isinstance(given, dict):
        raise InvalidTrainSpec("spec: give an object with base_model and data")
    refuse_nulls(given)
    runner = next((word for word in RUNNER if word in given), None)
    if runner is not None:
        raise Unsupported(
            f"{runner}: training by a runner is not offered; give base_model and data"
        )
    spec = _read(given)
    if spec.base_model not in base_models:
        raise InvalidTrainSpec(
            f"base_model: {spec.base_model!r} is not one of {sorted(base_models)}"
        )
    rows = checked_rows(_rows(spec.data))
    return CheckedTraining(
        spec={
            "base_model": spec.base_model,
            "recipe": spec.recipe or RECIPE,
            "name": spec.name,
            "rows": rows.count(b"\n"),
            "lora": _lora(spec),
            "seed": spec.training.seed,
            "evaluate": _evaluate(spec.evaluate),
        },
        rows=rows,
        tags=checked_tags(spec.tags if spec.tags is not None else (spec.options or {}).get("tags")),
    )


def refuse_nulls(given: Mapping[str, Any], above: str = "") -> None:
    """InvalidTrainSpec for a field without a value, here or further inside."""
    for name, value in given.items():
        if value is None:
            raise InvalidTrainSpec(f"{above}{name}: give a value, or leave it out")
        if isinstance(value, dict):
            refuse_nulls(value, f"{above}{name}.")


def checked_tags(given: object) -> dict[str, str]:
    """Labels of a job as texts; a whole number is written out."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or len(given) > MOST_TAGS:
        raise InvalidTrainSpec(f"tags: give an object of at most {MOST_TAGS} texts")
    return {str(name): _tag(name, value) for name, value in given.items()}


def _tag(name: object, value: object) -> str:
    value = whole(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TAG:
        raise InvalidTrainSpec(f"tags.{name}: give a text of 1 to {LONGEST_TAG} characters")
    if name == "rsi_round" and not value.isdecimal():
        raise InvalidTrainSpec("tags.rsi_round: give a whole number")
    return value


def _read(given: Mapping[str, object]) -> Spec:
    try:
        return Spec.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        what = "not a field here" if fault["type"] == "extra_forbidden" else fault["msg"]
        raise InvalidTrainSpec(f"{where}: {what}") from None


def _rows(data: Data) -> object:
    given = [name for name, value in data.model_dump().items() if value is not None]
    if given == ["rows"]:
        return data.rows
    if len(given) != 1:
        raise InvalidTrainSpec("data: give rows")
    raise InvalidTrainSpec(
        f"data.{given[0]}: nothing is kept by name here; send the rows as data.rows"
    )


def _lora(spec: Spec) -> dict[str, Any]:
    """The trainer's settings, where they differ from its own; a preset's come first."""
    if spec.recipe not in (None, RECIPE, *preset_names()):
        names = ", ".join([RECIPE, *preset_names()])
        raise InvalidTrainSpec(f"recipe: {spec.recipe!r} is not one of {names}")
    preset = load_preset(spec.recipe) if spec.recipe not in (None, RECIPE) else {}
    chosen = spec.lora.model_dump() | spec.training.model_dump(exclude={"seed"})
    settings = {name: value for name, value in chosen.items() if value is not None}
    if "rank" in settings:
        settings.setdefault("alpha", 2 * settings["rank"])
    return dict(preset.get("lora", {})) | settings


def _evaluate(given: Evaluate | None) -> dict[str, Any] | None:
    if given is None:
        return None
    if given.suite not in (*DOMAINS, GUARD, *EXTERNAL):
        names = ", ".join([*DOMAINS, GUARD, *EXTERNAL])
        raise InvalidTrainSpec(f"evaluate.suite: {given.suite!r} is not one of {names}")
    _check_families(given)
    _check_installed(given.suite)
    return {name: value for name, value in given.model_dump().items() if value is not None}


def _check_families(given: Evaluate) -> None:
    """Families of a domain, each with parameters that it has."""
    if given.families is None:
        return
    if given.suite not in DOMAINS:
        raise InvalidTrainSpec(f"evaluate.families: {given.suite} is a fixed list of tasks")
    domain = DOMAINS[given.suite]
    trained = [family.id for family in domain.families if family.role == "train"]
    for at, one in enumerate(given.families):
        where = f"evaluate.families[{at}]"
        if one.get("id") not in trained:
            raise InvalidTrainSpec(f"{where}.id: give one of {', '.join(trained)}")
        try:
            domain.family(one["id"]).with_params({k: v for k, v in one.items() if k != "id"})
        except ValueError as wrong:
            raise InvalidTrainSpec(f"{where}: {wrong}") from None
    if not given.families:
        raise InvalidTrainSpec("evaluate.families: give at least one, or leave it out for all")


def _check_installed(suite: str) -> None:
    try:
        if suite in EXTERNAL:
            EXTERNAL[suite]()
    except ValueError as missing:
        raise InvalidTrainSpec(f"evaluate.suite: {missing}") from None
