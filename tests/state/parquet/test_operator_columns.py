"""Operator state as Parquet files: every mode, every value, and damage is noticed."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import TypeInformation, Types
from beadline.common.types import Row
from beadline.errors import VersionError
from beadline.state.codec import freeze, thaw
from beadline.state.description import OPERATOR, StateDescription
from beadline.state.operator.handles import (
    BROADCAST,
    KEYED_RAW,
    LIST,
    RAW,
    UNION,
    OperatorStateHandle,
    StateContent,
    StateRef,
    decode,
    encode,
    read_ref,
    redistribute_handles,
)
from beadline.state.parquet.operator_columns import encode_operator_state, read_operator_state
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.segment import TableChanges, decode_segment
from beadline.state.segments.version import SegmentRef
from tests.state.parquet_files import encode_parquet

LONG, STRING = Types.LONG(), Types.STRING()
ANY = Types.PICKLED_BYTE_ARRAY()


def described(mode: str, info: TypeInformation = ANY, key: TypeInformation = ANY) -> StateDescription:
    return StateDescription("state", mode, type_to_text(info), type_to_text(key), OPERATOR)


def parquet(mode: str, items: list[Any], info: TypeInformation = ANY, key: TypeInformation = ANY) -> bytes:
    return encode_operator_state(StateContent(mode, items), described(mode, info, key))


values = st.one_of(
    st.integers(-5, 5),
    st.just(2**70),
    st.text(max_size=3),
    st.booleans(),
    st.none(),
    st.lists(st.integers(), max_size=2),
).map(freeze)


@given(st.lists(values), st.sampled_from([LIST, UNION]), st.sampled_from([ANY, LONG, STRING, Types.LIST(LONG)]))
def test_lists_keep_their_elements_and_their_order(items: list[Any], mode: str, info: TypeInformation) -> None:
    content = decode(parquet(mode, items, info))
    assert content == StateContent(mode, items)
    assert list(map(type, content.items)) == list(map(type, items))


keys = st.integers(-5, 5) | st.text(max_size=2) | st.tuples(st.integers(0, 3))


@given(st.dictionaries(keys, values), st.sampled_from([ANY, LONG, STRING]), st.sampled_from([ANY, LONG, STRING]))
def test_broadcast_pairs(entries: dict[Any, Any], key: TypeInformation, info: TypeInformation) -> None:
    items = [(freeze(k), v) for k, v in entries.items()]
    assert decode(parquet(BROADCAST, items, info, key)) == StateContent(BROADCAST, items)


def test_keys_that_are_no_plain_values_stay_frozen() -> None:
    items = [(freeze(Row(a=1)), 5), (freeze(frozenset((1, 2))), 6)]
    (row, _), (members, _) = decode(parquet(BROADCAST, items, LONG)).items
    assert (thaw(row), thaw(members)) == (Row(a=1), frozenset((1, 2)))
    assert type(row) is type(items[0][0])


@given(st.lists(st.binary()), st.lists(st.tuples(st.integers(0, 127), st.binary())))
def test_raw_bytes(plain: list[bytes], keyed: list[tuple[int, bytes]]) -> None:
    assert decode(parquet(RAW, plain)) == StateContent(RAW, plain)
    assert decode(parquet(KEYED_RAW, keyed)) == StateContent(KEYED_RAW, keyed)


def test_many_elements_keep_their_positions() -> None:
    items = list(range(20_000))
    data = parquet(LIST, items, LONG)
    found = pq.read_table(io.BytesIO(data))
    assert found.column_names == ["position", "value", "pickled"]
    assert found.column("position").to_pylist() == items
    assert decode(data).items == items


def test_the_file_says_which_state_it_is() -> None:
    description = described(BROADCAST, LONG, STRING)
    data = encode_operator_state(StateContent(BROADCAST, [("a", 1)]), description)
    assert read_operator_state(data) == (description, StateContent(BROADCAST, [("a", 1)]))
    assert pq.read_table(io.BytesIO(data)).to_pylist() == [{"key": "a", "value": 1, "pickled": None}]


def test_parts_may_be_files_of_either_kind(tmp_path: Any) -> None:
    files = SegmentFiles(str(tmp_path))
    old = encode(StateContent(LIST, [1, 2]))
    new = parquet(LIST, [3, "four", 5], LONG)
    refs = [
        SegmentRef("a", 2, len(old), inline=old),
        files.store("b.parquet", new, "b", 3),
    ]
    assert read_ref(StateRef(LIST, tuple(refs), (0, 1))).items == [1, 2, 3, "four", 5]
    handles = [OperatorStateHandle({"s": StateRef(LIST, (ref,))}) for ref in refs]
    dealt = redistribute_handles(handles, 3, 128, files, 1 << 20)
    shares = [read_ref(handle.states["s"]).items for handle in dealt]
    assert [item for share in shares for item in share] == [1, 2, 3, "four", 5]


def test_damage_is_noticed() -> None:
    data = parquet(LIST, [1, 2, 3], LONG)
    with pytest.raises(VersionError, match="my state is a damaged Parquet file"):
        decode(data[:-2], where="my state")
    flipped = bytearray(data)
    flipped[-20] ^= 1
    with pytest.raises(VersionError, match="the checksum of its footer is wrong"):
        decode(bytes(flipped), where="my state")


def test_keyed_state_is_no_operator_state_and_the_other_way_round() -> None:
    keyed = encode_parquet(TableChanges("value", False, {1: 1}), StateDescription("s", "value"), LONG, 8)
    with pytest.raises(VersionError, match="my state holds keyed state of kind value, not operator state"):
        decode(keyed, where="my state")
    with pytest.raises(VersionError, match="my segment holds operator state"):
        decode_segment(parquet(LIST, [1]), where="my segment")
