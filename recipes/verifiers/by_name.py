"""The Verifiers that recipes and `run.py verify` know, by name; also one in a file of its own."""

import importlib.util
from pathlib import Path

from engine.types import AnyVerifier, CodeVerifier, Verifier
from recipes.verifiers.code_cases import CODE_CASES
from recipes.verifiers.exact_number import EXACT_NUMBER
from recipes.verifiers.finance_option import FINANCE_OPTION
from recipes.verifiers.guard_word import GUARD_WORD
from recipes.verifiers.human_eval import HUMAN_EVAL

_ALL: tuple[AnyVerifier, ...] = (
    CODE_CASES,
    EXACT_NUMBER,
    FINANCE_OPTION,
    GUARD_WORD,
    HUMAN_EVAL,
)
VERIFIERS: dict[str, AnyVerifier] = {one.name: one for one in _ALL}


def find_verifier(name: str) -> AnyVerifier:
    """The Verifier of that name, or the one that a Python file of that path defines.

    A ValueError says what there is instead.
    """
    if name in VERIFIERS:
        return VERIFIERS[name]
    if not name.endswith(".py"):
        known = ", ".join(VERIFIERS)
        raise ValueError(f"no Verifier is called {name}: name one of {known}, or a .py file")
    return _in_file(Path(name))


def _in_file(path: Path) -> AnyVerifier:
    spec = importlib.util.spec_from_file_location(f"verifier_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    found = [one for one in vars(module).values() if isinstance(one, Verifier | CodeVerifier)]
    if not found and callable(getattr(module, "verify", None)):
        raise ValueError(
            f"{path} has a function verify and no Verifier around it: add the line "
            f'{path.stem.upper()} = Verifier(name="{path.stem}", verify=verify) below it, with '
            "Verifier imported from engine.types"
        )
    if len(found) != 1:
        raise ValueError(f"{path} defines {len(found)} Verifiers: keep one to a file")
    return found[0]
