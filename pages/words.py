"""How figures read: scores, changes, intervals, money, counts; a dash for what is not known."""

from app.shapes import Interval

DASH = "—"
MINUS = "−"


def score(value: float | None) -> str:
    """Three decimals: 0.429."""
    return DASH if value is None else f"{value:.3f}".replace("-", MINUS)


def signed(value: float | None) -> str:
    """A difference with its sign: +0.118, −0.008, ±0.000."""
    if value is None:
        return DASH
    text = f"{abs(value):.3f}"
    if float(text) == 0:
        return f"±{text}"
    return f"+{text}" if value > 0 else f"{MINUS}{text}"


def interval(low: float | None, high: float | None) -> str:
    """0.368–0.492, or −0.031 to 0.056 when an end is below zero."""
    if low is None or high is None:
        return DASH
    joint = " to " if low < 0 else "–"
    return f"{score(low)}{joint}{score(high)}"


def span(low: float | None, high: float | None) -> str:
    """An interval of a difference: always with "to"."""
    if low is None or high is None:
        return DASH
    return f"{score(low)} to {score(high)}"


def excludes_zero(difference: Interval | None) -> bool:
    """Whether a paired difference is told apart from zero: only then has it colour and arrow."""
    if difference is None or difference.low is None or difference.high is None:
        return False
    return difference.low > 0 or difference.high < 0


def percent(share: float | None) -> str:
    """100%, 99.5%: one decimal only where there is something behind the point."""
    if share is None:
        return DASH
    text = f"{100 * share:.1f}"
    return f"{text.removesuffix('.0')}%"


def usd(amount: float | None) -> str:
    """Two decimals: $1.05."""
    return DASH if amount is None else f"${amount:,.2f}"


def usd_fine(amount: float | None) -> str:
    """Two decimals, up to six where two would hide the amount: $0.012345."""
    if amount is None:
        return DASH
    text = f"{amount:,.6f}".rstrip("0")
    whole, _, places = text.partition(".")
    shown = f"{whole}.{places.ljust(2, '0')}" if abs(amount) < 1 else f"{amount:,.2f}"
    return f"${shown}".replace("$-", f"{MINUS}$")


def signed_points(points: float) -> str:
    """A difference in points with its sign: +21.5."""
    return f"{points:+.1f}".replace("-", MINUS)


def count(number: int | None) -> str:
    """With a comma at the thousands: 1,840."""
    return DASH if number is None else f"{number:,}"


def several(number: int, noun: str) -> str:
    """How many of something: 1 file, 2 files."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def size(count: int | None) -> str:
    """Bytes in decimal units: 812 B, 9.8 MB, 1.4 GB."""
    if count is None:
        return DASH
    amount, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 999.5 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.0f} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def duration(seconds: float | None) -> str:
    """46 s, 1 min 13 s, 2 h 5 min."""
    if seconds is None:
        return DASH
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    if whole < 3600:
        return f"{round(whole / 60)} min"
    hours, rest = divmod(round(whole / 60), 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def hours(seconds: float | None) -> str:
    """Two decimals: 1.42 h."""
    return DASH if seconds is None else f"{seconds / 3600:.2f} h"


def short_hash(text: str) -> str:
    """The first eight digits of a hash, in two groups: 7c1e 90ab."""
    return f"{text[:4]} {text[4:8]}".strip() or DASH


def family(family_id: str) -> str:
    """A family's id as words, without its domain: add carry."""
    return family_id.rpartition(".")[2].replace("_", " ")


def one_line(value: object) -> str:
    """Any plain value of a plan or a settings record as one line of text."""
    if value is None or value == "":
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {one_line(item)}" for name, item in value.items()) or DASH
    if isinstance(value, (list, tuple)):
        return ", ".join(one_line(item) for item in value) or DASH
    return str(value)
