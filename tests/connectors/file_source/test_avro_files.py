"""Records of Avro's container files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.common._formats.avro_schema import AvroSchema
from beadline.connectors.file_source.avro import AvroFileSource
from beadline.connectors.source import Unreadable
from beadline.errors import InputError
from tests.connectors.file_source.conftest import read_all, read_ranges

FIELDS = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
SCHEMA = AvroSchema.parse_string(json.dumps({"type": "record", "name": "R", "fields": FIELDS}))


def records(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": None if number % 3 else "x" * (number % 7)} for number in range(count)]


def file_of(content: list[Any], codec: str = "null", block: int = 64) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, SCHEMA.parsed(), content, codec=codec, sync_interval=block)
    return stream.getvalue()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(count=st.integers(0, 60), codec=st.sampled_from(["null", "deflate"]), cuts=st.data())
def test_each_record_is_read_once_wherever_ranges_are_cut(
    tmp_path: Path, count: int, codec: str, cuts: st.DataObject
) -> None:
    data = file_of(records(count), codec)
    path = tmp_path / "a.avro"
    path.write_bytes(data)
    places = sorted(cuts.draw(st.sets(st.integers(1, len(data) - 1), max_size=6)))
    found = read_ranges(AvroFileSource([str(path)], SCHEMA), str(path), len(data), [0, *places, len(data)])
    assert found == records(count)


@pytest.mark.parametrize("may_split", [True, False])
def test_steps_read_files_and_folders(tmp_path: Path, may_split: bool) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(file_of(records(200)))
    assert read_all(AvroFileSource([str(tmp_path)], SCHEMA, None, None, may_split), 30, 3) == records(200) * 2


def test_older_files_are_read_by_the_rules_of_evolution(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(file_of(records(5)))
    fields = [FIELDS[0], {"name": "more", "type": "string", "default": "none"}]
    newer = AvroSchema.parse_string(json.dumps({"type": "record", "name": "R", "fields": fields}))
    found = read_all(AvroFileSource([str(tmp_path)], newer), 30, 3)
    assert found == [{"id": number, "more": "none"} for number in range(5)]


def test_what_is_appended_later_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(file_of(records(50)))
    source = AvroFileSource([str(path)], SCHEMA)
    start = source.initial()
    with open(path, "a+b") as stream:
        fastavro.writer(stream, SCHEMA.parsed(), records(20))
    assert len(list(fastavro.reader(io.BytesIO(path.read_bytes())))) == 70
    end, splits = source.plan(start, 1000, 2)
    assert source.finished(end)
    assert sum(len(batch) for split in splits for batch in source.read_batches(split)) == 50


def test_a_bad_block_is_marked_and_the_others_read(tmp_path: Path) -> None:
    data = bytearray(file_of(records(60), "deflate"))
    places = [at for at in range(len(data)) if data[at : at + 16] == data[-16:]]
    middle = places[len(places) // 2] + 16
    data[middle + 4 : middle + 12] = b"\xff" * 8
    path = tmp_path / "a"
    path.write_bytes(data)
    found = read_all(AvroFileSource([str(path)], SCHEMA), 1000, 2)
    bad = [record for record in found if isinstance(record, Unreadable)]
    assert len(bad) == 1
    assert bad[0].place.endswith(f"records at byte {middle} of {path}")
    good = [record for record in found if not isinstance(record, Unreadable)]
    assert all(record in records(60) for record in good)
    assert 0 < 60 - len(good) < 60


def test_damage_that_hides_the_next_block_is_an_error(tmp_path: Path) -> None:
    data = file_of(records(60))
    (tmp_path / "a").write_bytes(data[:-30])
    with pytest.raises(InputError, match="has no whole block at byte"):
        read_all(AvroFileSource([str(tmp_path)], SCHEMA), 1000, 1)
    (tmp_path / "a").write_bytes(b"id,name\n1,a\n")
    with pytest.raises(InputError, match="is no Avro file"):
        read_all(AvroFileSource([str(tmp_path)], SCHEMA), 1000, 1)
