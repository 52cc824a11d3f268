"""What an audit says."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(kw_only=True, slots=True, frozen=True)
class Finding:
    """A verdict with its reasons, first reason first; each reason is (code, text)."""

    verdict: str  # approved | rejected | not_applicable | error
    reasons: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The first reason in words."""
        return self.reasons[0][1] if self.reasons else ""


def judged(problems: Sequence[tuple[str, str]], all_well: str) -> Finding:
    """Rejected for the problems, or approved with what was checked."""
    if problems:
        return Finding(verdict="rejected", reasons=tuple(problems))
    return Finding(verdict="approved", reasons=(("OK", all_well),))
