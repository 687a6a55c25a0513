"""Files of bulk formats: whole when they appear, in every place, however they were staged."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from beadline.common import Row
from beadline.connectors.files import BulkEncoding, BulkFileSink, pieces
from beadline.connectors.files.encodings import columns
from beadline.connectors.files.pieces import Piece
from beadline.connectors.sink import Committer, Held
from beadline.datastream.formats.avro import AvroBulkWriters, AvroSchema
from beadline.datastream.formats.csv import CsvBulkWriters, CsvSchema
from beadline.datastream.formats.orc import OrcBulkWriters
from beadline.datastream.formats.parquet import AvroParquetWriters, ParquetBulkWriters
from beadline.errors import TypeMismatchError
from beadline.state.segments.files import read_file
from beadline.table import DataTypes
from tests.connectors.files.conftest import Shelf
from tests.connectors.files.test_files import needs, precommit, publish_all, publish_ready, seal, through_metadata

ROW_TYPE = DataTypes.ROW(
    [
        DataTypes.FIELD("id", DataTypes.BIGINT(nullable=False)),
        DataTypes.FIELD("name", DataTypes.STRING()),
        DataTypes.FIELD("price", DataTypes.DECIMAL(10, 2)),
    ]
)
AVRO = AvroSchema.parse_string(
    json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "name", "type": ["null", "string"]},
                {
                    "name": "price",
                    "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}],
                },
            ],
        }
    )
)
CSV = (
    CsvSchema.builder()
    .add_number_column("id")
    .add_string_column("name")
    .add_number_column("price", DataTypes.DECIMAL(10, 2))
    .set_null_value("-")
    .set_use_header()
    .build()
)


def csv_rows(data: bytes) -> list[Any]:
    header, *lines = data.decode().splitlines()
    assert header == "id,name,price"
    fields = [line.split(",") for line in lines]
    return [
        {"id": int(a), "name": None if b == "-" else b, "price": None if c == "-" else Decimal(c)} for a, b, c in fields
    ]


Read = Callable[[bytes], list[Any]]
FORMATS: dict[str, tuple[Any, Read]] = {
    "parquet": (ParquetBulkWriters.for_row_type(ROW_TYPE), lambda data: pq.read_table(io.BytesIO(data)).to_pylist()),
    "orc": (OrcBulkWriters.for_row_type(ROW_TYPE), lambda data: orc.read_table(io.BytesIO(data)).to_pylist()),
    "avro": (AvroBulkWriters.for_generic_record(AVRO), lambda data: list(fastavro.reader(io.BytesIO(data)))),
    "avro in parquet": (
        AvroParquetWriters.for_generic_record(AVRO),
        lambda data: pq.read_table(io.BytesIO(data)).to_pylist(),
    ),
    "csv": (CsvBulkWriters.for_schema(CSV), csv_rows),
}


def record(number: int) -> Row:
    name = None if number % 3 == 0 else f"n{number}"
    return Row(id=number, name=name, price=None if number % 4 == 0 else Decimal(number) / 4)


def dicts(numbers: range | list[int]) -> list[Any]:
    return [record(number).as_dict() for number in numbers]


@pytest.fixture(params=list(FORMATS))
def chosen(request: pytest.FixtureRequest) -> tuple[BulkEncoding, Read]:
    factory, read = FORMATS[request.param]
    return pickle.loads(pickle.dumps(factory))._encoding, read


def bucket(record: Row, now: int) -> str:
    return "even" if record.id % 2 == 0 else "odd"


def no_bucket(record: Any, now: int) -> str:
    return ""


def sink_of(shelf: Shelf, encoding: BulkEncoding, bucket_of: Any = no_bucket) -> BulkFileSink:
    sink = BulkFileSink(shelf.base, encoding, bucket_of, suffix=".data")
    sink.prepare("0123456789abcdef")
    return sink


def stage(sink: BulkFileSink, numbers: range, subtask: int = 0, batch: int = 3) -> list[Piece]:
    stager = sink.stager(subtask, 1, 0)
    for start in range(numbers.start, numbers.stop, batch):
        stager.write([record(number) for number in range(start, min(start + batch, numbers.stop))], None)
    return [Piece(*through_metadata(piece.as_data())) for piece in stager.finish()]


def contents(shelf: Shelf, read: Read) -> dict[str, list[Any]]:
    return {name: read(read_file(shelf._path(name))) for name in shelf.visible_names()}


@pytest.fixture(params=[0, 1 << 16], ids=["in files", "inline"])
def _inline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_INLINE", request.param)


@pytest.mark.usefixtures("_inline")
def test_steps_until_the_checkpoint_make_one_file(shelf: Shelf, chosen: tuple[BulkEncoding, Read]) -> None:
    encoding, read = chosen
    sink = sink_of(shelf, encoding)
    committer = sink.committer()
    assert seal(committer, stage(sink, range(10)), 1000, final=False) == []
    assert seal(committer, stage(sink, range(10, 14)), 99_000, final=False) == [], "time does not matter"
    parts = seal(committer, stage(sink, range(14, 20)), 99_001, final=False, at_checkpoint=True)
    committables = precommit(committer, parts)
    assert shelf.visible_names() == []
    publish_ready(committer, committables)
    assert contents(shelf, read) == {"part-01234567-0-0.data": dicts(range(20))}
    publish_ready(committer, committables)
    assert len(shelf.visible_names()) == 1


def test_buckets_and_subtasks_have_their_own_files(disk: Shelf, chosen: tuple[BulkEncoding, Read]) -> None:
    encoding, read = chosen
    sink = sink_of(disk, encoding, bucket)
    committer = sink.committer()
    parts = seal(committer, [*stage(sink, range(4), 0), *stage(sink, range(4, 6), 1)], 0, final=True)
    publish_all(committer, parts)
    assert contents(disk, read) == {
        "even/part-01234567-0-0.data": dicts([0, 2]),
        "odd/part-01234567-0-1.data": dicts([1, 3]),
        "even/part-01234567-1-0.data": dicts([4]),
        "odd/part-01234567-1-1.data": dicts([5]),
    }


@pytest.mark.usefixtures("_inline")
def test_what_is_staged_outlives_the_driver(disk: Shelf, chosen: tuple[BulkEncoding, Read]) -> None:
    encoding, read = chosen
    sink = sink_of(disk, encoding)
    committer = sink.committer()
    seal(committer, stage(sink, range(5)), 0, final=False)
    snapshot = through_metadata(committer.snapshot())
    committer.make_durable(snapshot)
    seal(committer, stage(sink, range(5, 9)), 0, final=False)
    later = sink.committer()
    later.restore(snapshot, [needs(snapshot)])
    publish_all(later, seal(later, stage(sink, range(5, 7)), 0, final=True))
    assert contents(disk, read) == {"part-01234567-0-0.data": dicts(range(7))}


def test_a_savepoint_carries_what_is_staged(disk: Shelf, chosen: tuple[BulkEncoding, Read], tmp_path: Any) -> None:
    encoding, read = chosen
    sink = sink_of(disk, encoding)
    committer = sink.committer()
    handed_out = seal(committer, stage(sink, range(5)), 0, final=False, at_checkpoint=True)
    seal(committer, stage(sink, range(5, 8)), 0, final=False)
    savepoint = through_metadata(committer.portable(committer.snapshot(), handed_out))
    committer.close(discard=True)
    other = Shelf(str(tmp_path / "other"))
    moved = sink_of(other, encoding)
    restored = moved.committer()
    restored.restore(savepoint, [Held(savepoint, [], [])])
    publish_all(restored, seal(restored, [], 0, final=True))
    assert list(contents(other, read).values()) == [dicts(range(8))]


def test_a_record_that_does_not_fit_is_named(disk: Shelf, chosen: tuple[BulkEncoding, Read]) -> None:
    sink = sink_of(disk, chosen[0])
    for bad in (Row(id="x", name="a", price=None), Row(id=1, name="a"), Row(id=1, name="a", price="much")):
        with pytest.raises(TypeMismatchError, match="Row"):
            sink.stager(0, 1, 0).write([bad], None)


def test_null_where_there_must_be_none_is_refused_in_the_step(disk: Shelf) -> None:
    sink = sink_of(disk, FORMATS["parquet"][0]._encoding)
    with pytest.raises(TypeMismatchError, match="column 'id' of type int64 takes no null"):
        sink.stager(0, 1, 0).write([Row(id=None, name="a", price=None)], None)


def test_large_parts_have_several_row_groups(disk: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_GROUP_ROWS", 6)
    sink = sink_of(disk, FORMATS["parquet"][0]._encoding)
    committer = sink.committer()
    publish_all(committer, seal(committer, stage(sink, range(20)), 0, final=True))
    (path,) = disk.visible_names()
    file = pq.ParquetFile(disk._path(path))
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [6, 6, 6, 2]
    assert file.read().to_pylist() == dicts(range(20))


def test_times_are_stored_as_points_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In UTC, or in the zone of the machine, as the program says."""
    import time

    row_type = DataTypes.ROW([DataTypes.FIELD("at", DataTypes.TIMESTAMP(3))])
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        for in_utc, hour in ((True, 12), (False, 10)):
            encoding = ParquetBulkWriters.for_row_type(row_type, utc_timestamp=in_utc)._encoding
            piece = encoding.piece()
            piece.write([Row(at=dt.datetime(2020, 7, 1, 12)), Row(at=None)])
            data = b"".join(encoding.assemble(iter(piece.finish())))
            wanted = dt.datetime(2020, 7, 1, hour, tzinfo=dt.timezone.utc)
            assert pq.read_table(io.BytesIO(data)).column("at").to_pylist() == [wanted, None]
    finally:
        monkeypatch.undo()
        time.tzset()


@given(
    batches=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    chunk=st.integers(1, 300),
    name=st.sampled_from(list(FORMATS)),
)
def test_pieces_may_be_cut_anywhere(batches: list[int], chunk: int, name: str) -> None:
    """What is staged is read back in chunks of any length, and pieces are spilled one after the other."""
    factory, read = FORMATS[name]
    encoding, number, staged = factory._encoding, 0, b""
    for count in batches:
        piece = encoding.piece()
        piece.write([record(number + i) for i in range(count)])
        number += count
        staged += b"".join(piece.finish())
    chunks = (staged[at : at + chunk] for at in range(0, len(staged), chunk))
    assert read(b"".join(encoding.assemble(chunks))) == dicts(range(number))


def test_the_committer_is_the_one_of_all_file_sinks(disk: Shelf) -> None:
    committer: Committer = sink_of(disk, FORMATS["avro"][0]._encoding).committer()
    assert "FileCommitter" in repr(committer)
