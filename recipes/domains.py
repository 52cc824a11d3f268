"""The domains that a run can be about, by name."""

from engine.types import Domain
from recipes.arith import FAMILIES
from recipes.arith.wordings import wording_check
from recipes.code import FAMILIES as CODE_FAMILIES
from recipes.verifiers.code_cases import CODE_CASES
from recipes.verifiers.exact_number import EXACT_NUMBER

DOMAINS: dict[str, Domain] = {
    "arith": Domain(
        name="arith",
        label="Arithmetic",
        families=FAMILIES,
        verifier=EXACT_NUMBER,
        system="Reply with the number only.",
        max_tokens=24,
        may_stand=wording_check(FAMILIES),
    ),
    "code": Domain(
        name="code",
        label="Small Python programs",
        families=CODE_FAMILIES,
        verifier=CODE_CASES,
        system="Reply with Python code only, or with the one line that is asked for.",
        max_tokens=240,
    ),
}
