"""How long something took, from the moments that were written down."""

from datetime import UTC, datetime


def seconds_between(begun: str | None, ended: str | None) -> float | None:
    """Seconds from one moment to another; None while there is no end."""
    if begun is None or ended is None:
        return None
    try:
        span = _moment(ended) - _moment(begun)
    except ValueError:
        return None
    return max(0.0, span.total_seconds())


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
