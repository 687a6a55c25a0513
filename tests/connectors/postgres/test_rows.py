"""Records as rows: the values that go into the columns."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from beadline.common import Instant, Row
from beadline.connectors.postgres import Table, ToRows
from beadline.connectors.postgres.table import parts_of
from beadline.errors import ConfigurationError, TypeMismatchError
from beadline.state.codec import dumps, loads


class Pair(NamedTuple):
    n: int
    word: str


@dataclass
class Reading:
    word: str
    n: int


@pytest.mark.parametrize(
    "record",
    [Row(1, "a"), Row(n=1, word="a"), (1, "a"), [1, "a"], Pair(1, "a"), {"word": "a", "n": 1, "x": 0}, Reading("a", 1)],
    ids=["row", "named row", "tuple", "list", "named tuple", "dict", "dataclass"],
)
def test_whatever_has_the_values(record: Any) -> None:
    encode = ToRows(("n", "word"))
    assert encode([record, record], None) == [(1, "a"), (1, "a")]
    assert encode([record, (2, None)], [0, 0]) == [(1, "a"), (2, None)]


def test_values_become_plain_data() -> None:
    record = Row(Instant(1, 500_000_000), Row(1, "a"), [Row(2, "b")], bytearray(b"x"), {"k": 1})
    (row,) = ToRows(tuple("abcde"))([record], None)
    assert row == (dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.timezone.utc), (1, "a"), [(2, "b")], b"x", {"k": 1})
    assert loads(dumps(row)) == row


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((1, 2, 3), r"3 values for the 2 columns n, word: \(1, 2, 3\)"),
        ({"n": 1}, r"lacks some of the columns n, word: \{'n': 1\}"),
        (5, "lacks some of the columns n, word: 5"),
    ],
)
def test_records_that_do_not_fit(record: Any, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        ToRows(("n", "word"))([(1, "a"), record], None)


def test_names_of_tables() -> None:
    assert parts_of("Orders") == ("orders",)
    assert parts_of('"My Schema"."The ""Table"""') == ("My Schema", 'The "Table"')
    assert parts_of("public.orders_2") == ("public", "orders_2")
    for odd in ("", "a.b.c", "two words", '"open', "."):
        with pytest.raises(ConfigurationError, match="not the name of a table"):
            parts_of(odd)
    with pytest.raises(ConfigurationError, match="'n' of orders is named twice"):
        Table("orders", ("n", "n"))
