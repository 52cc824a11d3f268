"""The domains that a run can be about, by name."""

from engine.types import Domain
from recipes.arith import FAMILIES
from recipes.verifiers.exact_number import EXACT_NUMBER

DOMAINS: dict[str, Domain] = {
    "arith": Domain(
        name="arith",
        label="Arithmetic",
        families=FAMILIES,
        verifier=EXACT_NUMBER,
        system="Reply with the number only.",
        max_tokens=24,
    ),
}
