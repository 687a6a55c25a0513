"""Parquet files as segments: read like any other, by anybody, and damage is noticed."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import TypeInformation, Types
from beadline.errors import VersionError
from beadline.state.codec import freeze
from beadline.state.description import StateDescription
from beadline.state.key_groups import key_group_of
from beadline.state.parquet import segment as parquet_segment
from beadline.state.parquet.segment import ParquetReader, ParquetSegmentWriter
from beadline.state.segments.files import SegmentFiles, read_range
from beadline.state.segments.segment import SegmentContent, TableChanges, decode_segment, encode_segment, open_segment
from beadline.state.segments.version import KeyedStateHandle
from beadline.state.store import open_store
from tests.state.parquet_files import encode_parquet

GROUPS = 16
LONG, STRING = Types.LONG(), Types.STRING()


def described(kind: str = "value", info: TypeInformation = LONG, **more: Any) -> StateDescription:
    return StateDescription("count", kind, type_to_text(info), **more)


def table(changes: dict[Any, Any], kind: str = "value", namespaced: bool = False) -> TableChanges:
    return TableChanges(kind, namespaced, changes)


def small_groups(monkeypatch: pytest.MonkeyPatch, rows: int = 8) -> None:
    monkeypatch.setattr(parquet_segment, "_GROUP_ROWS", rows)


SAMPLE = table({f"key-{i}": i for i in range(60)})


def sample() -> bytes:
    return encode_parquet(SAMPLE, described(), STRING, GROUPS)


def damaged(data: bytes) -> bytes:
    """With another bit in a key of the last row group."""
    metadata = pq.read_metadata(io.BytesIO(data))
    keys = metadata.row_group(metadata.num_row_groups - 1).column(1)
    changed = bytearray(data)
    changed[keys.data_page_offset + keys.total_compressed_size - 2] ^= 0x41
    return bytes(changed)


@settings(max_examples=30)
@given(st.dictionaries(st.integers() | st.text(max_size=3), st.integers(), max_size=40), st.integers(1, 5))
def test_it_is_read_as_a_segment_whole_or_by_key_group(changes: dict[Any, Any], rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        small_groups(patch, rows)
        data = encode_parquet(table(changes), described(), STRING, GROUPS)
    expected: SegmentContent = {"count": table(changes)} if changes else {}
    assert decode_segment(data) == expected
    for low in range(0, GROUPS, 4):
        part = decode_segment(data, range(low, low + 4)).get("count", table({}))
        assert part.changes == {k: v for k, v in changes.items() if key_group_of(k, GROUPS) in range(low, low + 4)}


def test_anybody_reads_it(tmp_path: Path) -> None:
    info = Types.ROW_NAMED(["name", "total"], [STRING, LONG])
    convert = info.converter()
    changes = {1: freeze(convert(("a", 5))), 2: freeze(convert((None, 6)))}
    (tmp_path / "part-0.parquet").write_bytes(encode_parquet(table(changes), described(info=info), LONG, GROUPS))
    found = pq.read_table(tmp_path).sort_by("key")
    assert found.column_names == ["key_group", "key", "value", "pickled"]
    assert found.column("value").to_pylist() == [{"name": "a", "total": 5}, {"name": None, "total": 6}]
    assert found.column("key_group").to_pylist() == [key_group_of(1, GROUPS), key_group_of(2, GROUPS)]
    about = json.loads(found.schema.metadata[b"beadline"])
    assert about["name"] == "count"
    assert about["max_parallelism"] == GROUPS
    assert about["key_type"] == '"LONG"'


def test_the_file_says_what_it_holds() -> None:
    description = StateDescription("s", "map", '"LONG"', '"STRING"', descriptor="MapState", namespaced=True, ttl_ms=5)
    changes = {(1, (0, 5)): (True, {"a": (3, 4)}, [])}
    data = encode_parquet(TableChanges("map", True, changes, 5), description, LONG, GROUPS)
    reader = open_segment(lambda at, size: data[at : at + size], len(data))
    assert isinstance(reader, ParquetReader)
    assert (reader.description, reader.key_type, reader.max_parallelism) == (description, '"LONG"', GROUPS)
    assert decode_segment(data) == {"s": TableChanges("map", True, changes, 5)}


def test_only_the_row_groups_that_are_needed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    small_groups(monkeypatch, 64)
    data = encode_parquet(table({f"key-{i}": i for i in range(4000)}), described(), STRING, GROUPS)
    read: list[int] = []

    def counted(offset: int, size: int) -> bytes:
        read.append(size)
        return data[offset : offset + size]

    blocks = open_segment(counted, len(data)).parts(range(3, 5))
    found = len(next(blocks)[1].changes)
    read.clear()  # the footer, and one row group
    found += sum(len(part.changes) for _, part in blocks)
    assert found == sum(key_group_of(f"key-{i}", GROUPS) in (3, 4) for i in range(4000))
    assert 0 < sum(read) < len(data) / 6, "they are an eighth of the rows"


def test_row_groups_are_bounded_in_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_segment, "_GROUP_BYTES", 64 << 10)
    large = {i: bytes([i % 251]) * (50_000 if i % 2 else 10) for i in range(200)}
    description = described(info=Types.PRIMITIVE_ARRAY(Types.BYTE()))
    data = encode_parquet(table(large), description, LONG, GROUPS)
    file = pq.ParquetFile(io.BytesIO(data))
    assert decode_segment(data)["count"].changes == large
    assert max(file.read_row_group(i).nbytes for i in range(file.num_row_groups)) < 64 << 12
    small_groups(monkeypatch, 10)
    file = pq.ParquetFile(io.BytesIO(encode_parquet(SAMPLE, described(), STRING, GROUPS)))
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [10] * 6


def test_a_file_is_written_slice_by_slice() -> None:
    parts: list[bytes] = []
    writer = ParquetSegmentWriter(parts.append, described(), type_to_text(STRING), GROUPS)
    for group in range(GROUPS):
        writer.add(table({k: v for k, v in SAMPLE.changes.items() if key_group_of(k, GROUPS) == group}))
    writer.finish()
    assert writer.entries == 60
    assert b"".join(parts) == sample(), "slices leave no trace"


def test_timers_of_a_key_may_lie_in_several_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    small_groups(monkeypatch, 3)
    changes = {"a": (list(range(10)), []), "b": ([5], [])}
    data = encode_parquet(table(changes, "timer"), described("timer"), STRING, GROUPS)
    assert {k: (sorted(v[0]), v[1]) for k, v in decode_segment(data)["count"].changes.items()} == changes


def test_nothing_is_a_file_without_rows() -> None:
    data = encode_parquet(table({}), described(), STRING, GROUPS)
    assert decode_segment(data) == {}
    assert pq.read_table(io.BytesIO(data)).num_rows == 0


def outcome(data: bytes) -> SegmentContent | str:
    """What a segment holds, or why it can't be read."""
    try:
        return decode_segment(data, where="my segment")
    except VersionError as error:
        return str(error)


def test_every_flipped_byte_is_noticed_or_changes_nothing() -> None:
    whole = sample()
    for position in range(0, len(whole), 3):
        data = bytearray(whole)
        data[position] ^= 0x41
        found = outcome(bytes(data))
        if isinstance(found, str):
            assert found.startswith("my segment")
            assert "\n" not in found
        else:
            assert found == {"count": SAMPLE}, position


@pytest.mark.parametrize("length", [4, 5, 12, 100, -9, -1])
def test_a_file_that_is_cut_short_is_noticed(length: int) -> None:
    with pytest.raises(VersionError, match=r"my segment"):
        decode_segment(sample()[:length], where="my segment")


def test_damage_in_a_stored_file_names_its_path(tmp_path: Path) -> None:
    files = SegmentFiles(str(tmp_path))
    data = sample()
    ref = files.store("part-0.parquet", data, "v1", 60)
    assert open_store(None, KeyedStateHandle("root", (ref,)), range(GROUPS)).count() == 60
    (tmp_path / "part-0.parquet").write_bytes(damaged(data))
    with pytest.raises(VersionError, match=r"part-0\.parquet"):
        open_store(None, KeyedStateHandle("root", (ref,)), range(GROUPS))
    with pytest.raises(VersionError, match=r"part-0\.parquet"):
        list(open_segment(lambda at, size: read_range(ref, at, size), ref.size, repr(ref)).parts())


def test_a_parquet_file_of_somebody_else_is_refused() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), out)
    with pytest.raises(VersionError, match="without Beadline's metadata"):
        decode_segment(out.getvalue(), where="my segment")


def test_a_newer_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_segment, "FORMAT", 2)
    data = sample()
    monkeypatch.undo()
    with pytest.raises(VersionError, match="my segment has format 2, and this Beadline knows 1"):
        decode_segment(data, where="my segment")


def test_a_type_of_a_newer_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_segment, "asdict", lambda found: {**asdict(found), "type": '"QUATERNION"'})
    data = sample()
    with pytest.raises(VersionError, match=r"my segment: .*QUATERNION"):
        decode_segment(data, where="my segment")


def test_a_large_file_is_loaded_by_row_groups_and_a_store_that_failed_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("beadline.state.heap.store._BLOCKWISE_BYTES", 10)
    small_groups(monkeypatch)
    files = SegmentFiles(str(tmp_path))
    delta = files.store("a.run", encode_segment({"count": table({"key-0": 7})}, GROUPS), "v0", 1)
    ref = files.store("b.parquet", sample(), "v1", 60)
    handle = KeyedStateHandle("root", (delta, ref))
    store = open_store(None, KeyedStateHandle("root", (delta,)), range(GROUPS))
    good = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(damaged(good))
    with pytest.raises(VersionError, match=r"b\.parquet"):
        open_store(store, handle, range(GROUPS))
    (tmp_path / "b.parquet").write_bytes(good)
    fresh = open_store(store, handle, range(GROUPS))
    assert fresh is not store
    assert fresh.table("count", "value").base == SAMPLE.changes  # type: ignore[comparison-overlap]
