"""Avro's container files: pieces are blocks, and a file is a header with blocks after it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import xxhash

from beadline.common._formats.avro_schema import AvroSchema, fastavro
from beadline.common._formats.avro_values import row_writer
from beadline.connectors.files.bulk import BulkEncoding, PieceWriter
from beadline.errors import TypeMismatchError


class AvroEncoding(BulkEncoding):
    """Records of one schema: dicts, or rows with the same fields.

    :param codec: ``null``, ``deflate``, …: what fastavro knows
    """

    def __init__(self, schema: AvroSchema, codec: str) -> None:
        self._schema = schema
        self._codec = codec
        # Blocks of several pieces go into one file, so all of them must end alike.
        self._sync = xxhash.xxh3_128_digest(f"{schema}|{codec}".encode())

    def piece(self) -> PieceWriter:
        return _AvroPiece(self._file, row_writer(self._schema), len(self._header()))

    def assemble(self, staged: Iterator[bytes]) -> Iterator[bytes]:
        yield self._header()
        yield from staged

    def _header(self) -> bytes:
        return self._file([])

    def _file(self, records: list[Any]) -> bytes:
        stream = io.BytesIO()
        parsed = self._schema.parsed()
        fastavro().writer(stream, parsed, records, codec=self._codec, sync_marker=self._sync)
        return stream.getvalue()


class _AvroPiece(PieceWriter):
    def __init__(self, file_of: Callable[[list[Any]], bytes], convert: Callable[[Any], Any], header: int) -> None:
        self._file_of = file_of
        self._convert = convert
        self._header = header
        self._staged: list[bytes] = []

    def write(self, records: list[Any]) -> None:
        try:
            data = self._file_of([self._convert(record) for record in records])
        except Exception as error:  # fastavro raises whatever the record leads it to
            if len(records) == 1:
                problem = f"{type(error).__name__}: {error}"
                raise TypeMismatchError(f"{records[0]!r} can't be written as Avro: {problem}") from error
            raise
        self._staged.append(data[self._header :])

    def finish(self) -> list[bytes]:
        return self._staged
