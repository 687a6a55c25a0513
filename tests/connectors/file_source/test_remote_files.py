"""Files on a server that speaks S3, in each format."""

from __future__ import annotations

import gzip
import io
import itertools
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beadline.common import Row, Types
from beadline.common._formats.avro_schema import AvroSchema
from beadline.common._formats.csv_dialect import CsvDialect
from beadline.connectors.file_source.avro import AvroFileSource
from beadline.connectors.file_source.csv import CsvFileSource, CsvLayout
from beadline.connectors.file_source.parquet import ParquetFileSource, ParquetLayout
from beadline.connectors.file_source.text import TextFileSource
from beadline.errors import ConfigurationError, InputError
from tests.connectors.file_source.conftest import read_all
from tests.object_store import BUCKET, Store, object_store

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as made:
        yield made


class Folder:
    """A folder of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._prefix = f"{next(_NUMBERS)}/my in"

    @property
    def uri(self) -> str:
        return self._store.uri(self._prefix.replace(" ", "%20"))

    def put(self, name: str, data: bytes) -> None:
        self._store.client.put_object(Bucket=BUCKET, Key=f"{self._prefix}/{name}", Body=data)

    def remove(self, name: str) -> None:
        self._store.delete(f"{self._prefix}/{name}")


@pytest.fixture
def folder(store: Store) -> Folder:
    return Folder(store)


ROWS = [Row(id=number, name=f"n,{number}") for number in range(50)]
DICTS = [row.as_dict() for row in ROWS]


def test_lines(folder: Folder) -> None:
    lines = [f"line {number}" for number in range(100)]
    folder.put("a.txt", "\n".join(lines[:60]).encode())
    folder.put("b c/d.txt.gz", gzip.compress("\n".join(lines[60:]).encode()))
    folder.put("_hidden", b"x\n")
    folder.put("b c/.hidden", b"x\n")
    assert read_all(TextFileSource([folder.uri]), 7, 3) == lines


def test_csv(folder: Folder) -> None:
    folder.put("a.csv", "".join(f'{row.id},"{row.name}"\n' for row in ROWS).encode())
    kind: Any = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    assert read_all(CsvFileSource([folder.uri], CsvLayout(CsvDialect(), kind, [";", ";"])), 7, 3) == ROWS


def test_avro(folder: Folder) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    schema = AvroSchema.parse_string(json.dumps({"type": "record", "name": "R", "fields": fields}))
    stream = io.BytesIO()
    fastavro.writer(stream, schema.parsed(), DICTS, sync_interval=100)
    folder.put("a.avro", stream.getvalue())
    assert read_all(AvroFileSource([folder.uri], schema), 7, 3) == DICTS


def test_parquet(folder: Folder) -> None:
    table = pa.Table.from_pylist(DICTS)
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=20)
    folder.put("a.parquet", stream.getvalue())
    assert read_all(ParquetFileSource([folder.uri], ParquetLayout(table.schema)), 7, 3) == ROWS


def test_files_that_change_or_vanish_are_noticed(folder: Folder) -> None:
    folder.put("a.txt", b"one\ntwo\n")
    source = TextFileSource([folder.uri])
    _, splits = source.plan(source.initial(), 100, 1)
    folder.put("a.txt", b"one\nTWO\n")
    with pytest.raises(InputError, match="has changed since it was listed"):
        list(source.read_batches(splits[0]))
    folder.remove("a.txt")
    with pytest.raises(InputError, match="is gone"):
        list(source.read_batches(splits[0]))


def test_a_path_that_does_not_exist_is_refused(folder: Folder) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        TextFileSource([folder.uri]).initial()
