"""The text that Java gives numbers and times, which is what Flink's ``print()`` shows.

Doubles and floats follow the rule of JDK 19 and later: the shortest digits that read back as the same number. Older
JDKs print a digit more for a few numbers (2.0E23 as 1.9999999999999998E23).
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from beadline.common.time import Instant

_FLOAT = struct.Struct(">f")
_EXACT = Context(prec=200)  # enough for every float, whatever the program has set for its own decimals

# 400 years have 146097 days, always. Counted from a first of March, the leap day comes last.
_CYCLE_DAYS = 146097
_CYCLE_START = datetime.date(2000, 3, 1)
_CYCLE_START_DAY = (_CYCLE_START - datetime.date(1970, 1, 1)).days


def to_float32(value: float) -> float:
    """``value`` rounded to 32 bits; what is too large becomes infinite, as a C cast does."""
    try:
        rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def boolean_text(value: bool) -> str:
    return "true" if value else "false"


def double_text(value: float) -> str:
    """``Double.toString``: ``1.0``, ``1.0E10``, ``NaN``, ``Infinity``."""
    special = _special(value)
    if special:
        return special
    shortest = Decimal(repr(value)).normalize(_EXACT)
    if len(shortest.as_tuple().digits) == 1:  # Java shows two digits at least, so the second may be the nearer one
        shortest = Decimal(f"{value:.1e}").normalize(_EXACT)
    return _java_notation(shortest)


def float_text(value: float) -> str:
    """``Float.toString`` of the 32-bit number nearest to ``value``."""
    value = to_float32(value)
    special = _special(value)
    if special:
        return special
    exact = Decimal(value)
    for digits in range(2, 10):
        below, above = (Context(prec=digits, rounding=way).plus(exact) for way in (ROUND_FLOOR, ROUND_CEILING))
        same = [candidate for candidate in (below, above) if to_float32(float(candidate)) == value]
        if same:
            break
    return _java_notation(
        min(same, key=lambda candidate: _EXACT.subtract(candidate, exact).copy_abs()).normalize(_EXACT)
    )


def _special(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return ""


def _java_notation(number: Decimal) -> str:
    """Plain between a thousandth and ten millions, with an exponent elsewhere, always with a point."""
    sign = "-" if number.is_signed() else ""
    digits = "".join(map(str, number.as_tuple().digits))
    exponent = number.adjusted()
    if digits == "0":
        return f"{sign}0.0"
    if not -3 <= exponent < 7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return f"{sign}{digits[: exponent + 1].ljust(exponent + 1, '0')}.{digits[exponent + 1 :] or '0'}"


def decimal_text(value: Decimal) -> str:
    """``BigDecimal.toString``; Python and Java follow the same standard here."""
    return str(value)


def time_text(value: datetime.time) -> str:
    """``java.sql.Time.toString``: whole seconds."""
    return f"{value:%H:%M:%S}"


def timestamp_text(value: datetime.datetime) -> str:
    """``java.sql.Timestamp.toString``: a blank, and at least one digit after the point."""
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value.date().isoformat()} {value:%H:%M:%S}.{fraction}"


def local_time_text(value: datetime.time) -> str:
    """``java.time.LocalTime.toString``: seconds only if there are any, the fraction in groups of three digits."""
    text = f"{value:%H:%M}"
    if value.second or value.microsecond:
        text += f":{value.second:02d}"
    return text + _grouped_fraction(value.microsecond * 1000)


def local_date_time_text(value: datetime.datetime) -> str:
    """``java.time.LocalDateTime.toString``."""
    return f"{value.date().isoformat()}T{local_time_text(value.time())}"


def instant_text(value: Instant) -> str:
    """``java.time.Instant.toString``: ISO 8601 in UTC, years beyond 9999 with a sign."""
    days, second_of_day = divmod(value.seconds, 86400)
    year, month, day = _civil_date(days)
    hour, rest = divmod(second_of_day, 3600)
    minute, second = divmod(rest, 60)
    years = f"{year:04d}" if 0 <= year <= 9999 else f"{'+' if year > 0 else '-'}{abs(year):04d}"
    return f"{years}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{_grouped_fraction(value.nanos)}Z"


def _grouped_fraction(nanos: int) -> str:
    if not nanos:
        return ""
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}"


def _civil_date(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01, also where ``datetime`` ends."""
    cycles, day_of_cycle = divmod(days - _CYCLE_START_DAY, _CYCLE_DAYS)
    proxy = _CYCLE_START + datetime.timedelta(days=day_of_cycle)
    return proxy.year + 400 * cycles, proxy.month, proxy.day


def sequence_text(items: Iterable[str], start: str = "[", end: str = "]", between: str = ", ") -> str:
    """``[a, b]``, as ``List.toString`` and ``Arrays.toString`` write it."""
    return f"{start}{between.join(items)}{end}"
