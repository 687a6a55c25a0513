"""Decimal numbers with a precision and a scale, as tables have them."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

_PLENTY = Context(prec=100)


def scaled(value: Decimal, precision: int, scale: int) -> Decimal:
    """A number rounded to its scale, half up, as Flink does it.

    :raises ValueError: it has more digits than the precision. In Flink it would become null
    """
    found = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _PLENTY)
    if len(found.as_tuple().digits) > precision:
        raise ValueError(f"{value} does not fit DECIMAL({precision}, {scale})")
    return found
