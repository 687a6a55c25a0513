"""Rows behave as PyFlink's do; the texts are those that PyFlink 2.3.0 shows."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import Row, RowKind
from beadline.errors import UnsupportedFeatureError


def test_a_row_by_position() -> None:
    row = Row("Alice", 11)
    assert (row[0], row[-1], list(row), len(row), row[0:1]) == ("Alice", 11, ["Alice", 11], 2, ["Alice"])
    assert repr(row) == str(row) == "<Row('Alice', 11)>"
    assert "Alice" in row


def test_a_row_by_name() -> None:
    row = Row(name="Alice", age=11)
    assert (row["name"], row.age, row[0]) == ("Alice", 11, "Alice")
    assert repr(row) == str(row) == "Row(name='Alice', age=11)"
    assert "name" in row
    assert "Alice" not in row


def test_a_row_has_positions_or_names() -> None:
    with pytest.raises(ValueError, match="not both"):
        Row("Alice", age=11)


def test_a_row_of_names_is_a_template() -> None:
    person = Row("name", "age")
    assert person("Alice", 11) == Row(name="Alice", age=11)
    assert repr(person("Alice", 11)) == "Row(name='Alice', age=11)"
    with pytest.raises(ValueError, match="has 2 fields, got 3 values"):
        person(1, 2, 3)


def test_fields_can_be_set_by_position_and_name_only() -> None:
    row = Row(name="Alice", age=11)
    row["age"] = 12
    row[0] = "Bob"
    assert list(row) == ["Bob", 12]
    with pytest.raises(AttributeError):
        row.age = 13


def test_what_a_row_does_not_have() -> None:
    with pytest.raises(ValueError, match=r"no field 'size'; it has \['name'\]"):
        Row(name="Alice")["size"]
    with pytest.raises(ValueError, match="no field 'size'"):
        Row(name="Alice")["size"] = 3
    with pytest.raises(AttributeError, match="no field 'size'"):
        _ = Row(name="Alice").size
    with pytest.raises(KeyError):
        Row("Alice")["name"]
    assert not hasattr(Row("Alice"), "name")


def test_a_row_becomes_a_dict() -> None:
    row = Row(key=1, value=Row(name="a", tags=[Row(x=1)], more={"y": Row(z=2)}))
    assert row.as_dict() == {"key": 1, "value": row.value}
    assert row.as_dict(True) == {"key": 1, "value": {"name": "a", "tags": [{"x": 1}], "more": {"y": {"z": 2}}}}
    with pytest.raises(TypeError, match="has no field names"):
        Row(1).as_dict()


def test_names_can_be_given_later() -> None:
    row = Row(1, 2)
    row.set_field_names(["a", "b"])
    assert row.b == 2
    assert row.get_fields_by_names(["b", "a"]) == [2, 1]
    with pytest.raises(ValueError, match=r"no fields \['c'\]"):
        row.get_fields_by_names(["c"])
    assert Row(1, 2).get_fields_by_names(["whatever"]) == [1, 2]


def test_equality_goes_by_names_values_and_kind() -> None:
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert Row(1, 2) == Row(1, 2)
    assert Row(a=1) != Row(1)
    assert Row(1) != Row(a=1)
    assert Row(a=1) != Row(b=1)
    assert Row(1, 2) != Row(2, 1)
    assert Row.of_kind(RowKind.DELETE, 1) != Row(1)
    assert Row(1) != (1,)


def test_equal_rows_have_equal_hashes() -> None:
    assert len({Row(a=1, b=2), Row(b=2, a=1)}) == 1
    assert len({Row(1, 2), Row(1, 2), Row(2, 1)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Row([1]))


def test_row_kinds() -> None:
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]
    row = Row.of_kind(RowKind.UPDATE_AFTER, a=1)
    assert row.get_row_kind() is RowKind.UPDATE_AFTER
    row.set_row_kind(RowKind.INSERT)
    assert row == Row(a=1)
    with pytest.raises(UnsupportedFeatureError, match="to_j_row_kind"):
        RowKind.INSERT.to_j_row_kind()


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.integers() | st.text() | st.none()),
    st.sampled_from(RowKind),
)
def test_a_row_survives_pickling_and_copying(values: dict[str, int | str | None], kind: RowKind) -> None:
    for row in (Row.of_kind(kind, **values), Row.of_kind(kind, *values.values())):
        for other in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
            assert other == row
            assert hash(other) == hash(row)
            assert repr(other) == repr(row)


def test_a_deep_copy_shares_nothing() -> None:
    row = Row(a=[1])
    other = copy.deepcopy(row)
    other.a.append(2)
    assert row.a == [1]


def test_the_pickle_of_a_row_is_small() -> None:
    assert len(pickle.dumps(Row(name="Alice", age=11), protocol=5)) < 90
