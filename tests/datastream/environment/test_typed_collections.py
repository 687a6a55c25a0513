"""from_collection with a declared type: what PyFlink converts, and where Beadline asks first."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from beadline.common import Configuration, Row, Types
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.environment.typed_collections import typed_elements
from beadline.errors import TypeMismatchError

PAIR = Types.TUPLE([Types.INT(), Types.STRING()])
NAMED = Types.ROW_NAMED(["a", "b"], [Types.SHORT(), Types.STRING()])


@pytest.mark.parametrize(
    ("type_info", "given", "taken"),
    [
        (Types.STRING(), 1, "1"),
        (Types.STRING(), 2.5, "2.5"),
        (Types.STRING(), 1e10, "1.0E10"),
        (Types.STRING(), True, "true"),
        (Types.STRING(), Decimal("1.50"), "1.50"),
        (PAIR, (1, 2), (1, "2")),
        (Types.ROW([Types.INT(), Types.STRING()]), Row(1, 2), Row(f0=1, f1="2")),
        (NAMED, Row(b=2, a=1), Row(a=1, b="2")),
        (NAMED, {"b": False}, Row(a=None, b="false")),
        (Types.LIST(Types.STRING()), [1, "a", None], ["1", "a", None]),
        (Types.MAP(Types.STRING(), Types.STRING()), {1: 2}, {"1": "2"}),
    ],
    ids=repr,
)
def test_numbers_become_text_as_in_pyflink(type_info: Any, given: Any, taken: Any) -> None:
    assert typed_elements([given], type_info, lenient=False) == [taken]


@pytest.mark.parametrize(
    ("type_info", "given", "wrapped"),
    [
        (Types.INT(), 2**31, -(2**31)),
        (Types.BYTE(), 200, -56),
        (Types.SHORT(), -40000, 25536),
        (Types.INT(), -(2**63), 0),
        (PAIR, (2**32 + 5, "x"), (5, "x")),
        (NAMED, Row(a=70000, b="x"), Row(a=4464, b="x")),
        (Types.LIST(Types.INT()), [1, 2**31], [1, -(2**31)]),
        (Types.MAP(Types.STRING(), Types.BYTE()), {"a": 256}, {"a": 0}),
    ],
    ids=repr,
)
def test_integers_that_are_too_large_are_wrapped_only_on_demand(type_info: Any, given: Any, wrapped: Any) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        typed_elements([given], type_info, lenient=False)
    text = str(caught.value)
    assert text.startswith("from_collection, element 0: A value")
    assert f"give {wrapped!r}; to do the same, set the option beadline.types.lenient to true" in text
    assert typed_elements([given], type_info, lenient=True) == [wrapped]


@pytest.mark.parametrize(
    ("type_info", "given"),
    [
        (Types.INT(), "a"),
        (Types.INT(), 1.5),
        (Types.LONG(), 2**63),
        (Types.INT(), 2**64),
        (Types.STRING(), object()),
        (Types.DOUBLE(), "1"),
        (PAIR, (1, 2, 3)),
    ],
)
def test_what_nobody_converts_is_refused_with_its_position(type_info: Any, given: Any) -> None:
    for lenient in (False, True):
        with pytest.raises(TypeMismatchError, match=r"^from_collection, element 1: ") as caught:
            typed_elements([_good(type_info), given], type_info, lenient)
        assert "beadline.types.lenient" not in str(caught.value)


def _good(type_info: Any) -> Any:
    return {"Integer": 1, "Long": 1, "String": "a", "Double": 1.0}.get(repr(type_info), (1, "a"))


def test_the_option_is_read_from_the_environment() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"beadline.types.lenient": "true"})
    )
    env.from_collection([2**31], Types.INT())
    with pytest.raises(TypeMismatchError, match="element 0"):
        StreamExecutionEnvironment.get_execution_environment().from_collection([2**31], Types.INT())
