"""The arithmetic families, trained ones first, then those held out for generalisation."""

from recipes.arith.bases import BASES
from recipes.arith.decimals import DECIMALS
from recipes.arith.differences import DIFFERENCES
from recipes.arith.digits import DIGITS
from recipes.arith.expressions import EXPRESSIONS
from recipes.arith.products import PRODUCTS
from recipes.arith.stories import STORY_FAMILIES
from recipes.arith.sums import SUMS

_ALL = (
    *SUMS,
    *DIFFERENCES,
    *PRODUCTS,
    *DECIMALS,
    *BASES,
    *EXPRESSIONS,
    *DIGITS,
    *STORY_FAMILIES,
)
FAMILIES = tuple(sorted(_ALL, key=lambda family: family.role == "held_out"))
