"""Writes batches of records to streams of Kinesis, and to Firehose. After a failure records may come twice."""

from __future__ import annotations

import logging
import os
import random
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from beadline.common.serialization import SerializationSchema
from beadline.connectors.kinesis.client import code_of, make_client, named
from beadline.connectors.transactions import Entry, Log
from beadline.errors import ConfigurationError, SerializationError

_LOG = logging.getLogger("beadline.kinesis")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
# So long entries are tried again that AWS refuses for the moment.
_PATIENCE = 120.0
_clients: dict[tuple[int, str, frozenset[tuple[str, str]]], Any] = {}

#: Data, and the partition key if the records' own choice is known.
Row = tuple[bytes, str | None]


class RecordEncoder:
    """Makes rows of records.

    :param key_of: gives the partition key of a record; None if the subtask is the key
    """

    def __init__(self, schema: SerializationSchema, key_of: Callable[[Any], str] | None) -> None:
        self._schema = schema
        self._key_of = key_of
        self._serialize: Callable[[Any], Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_serialize": None}

    def __call__(self, records: list[Any], timestamps: list[int] | None) -> list[Any]:
        if self._serialize is None:
            self._serialize = self._schema.serializer()
        rows: list[Any] = []
        for record in records:
            data = self._serialize(record)
            if not isinstance(data, (bytes, bytearray)):
                raise SerializationError(
                    f"{type(self._schema).__name__} must give bytes for Kinesis, got {data!r} for {record!r}."
                )
            rows.append((bytes(data), None if self._key_of is None else str(self._key_of(record))))
        return rows


@dataclass(repr=False)
class AwsLog(Log):
    """Something that takes batches of records, and answers which of them it has refused for the moment.

    :ivar name: of the stream
    :ivar fail_on_error: a refusal fails the job, instead of being tried again
    """

    name: str
    properties: Mapping[str, str]
    fail_on_error: bool = False
    max_batch: int = 500
    max_batch_bytes: int = 5 << 20
    max_record_bytes: int = 1 << 20
    service: ClassVar[str]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name}>"

    def client(self) -> Any:
        """One for each process."""
        key = (os.getpid(), self.service, frozenset(self.properties.items()))
        if key not in _clients:
            _clients[key] = make_client(self.service, self.properties)
        return _clients[key]

    @abstractmethod
    def put(self, rows: list[Row], subtask: int) -> list[tuple[int, str]]:
        """Write; gives which rows were refused, and why."""

    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        for rows in batches:
            for batch in self._cut(rows):
                self._put_all(batch, entry.subtask)

    def _cut(self, rows: list[Row]) -> Iterator[list[Row]]:
        """Batches that AWS takes at once."""
        batch: list[Row] = []
        size = 0
        for data, key in rows:
            length = len(data) + len((key or "").encode())
            if length > self.max_record_bytes:
                raise SerializationError(
                    f"a record of {length:,} bytes is too large for {self.name}, which takes {self.max_record_bytes:,}"
                )
            if batch and (len(batch) >= self.max_batch or size + length > self.max_batch_bytes):
                yield batch
                batch, size = [], 0
            batch.append((data, key))
            size += length
        if batch:
            yield batch

    def _put_all(self, rows: list[Row], subtask: int) -> None:
        pause, deadline = _FIRST_PAUSE, time.monotonic() + _PATIENCE
        while True:
            refused = self.put(rows, subtask)
            if not refused:
                return
            why = refused[0][1]
            if self.fail_on_error or time.monotonic() > deadline:
                raise OSError(f"{self.name} has refused {len(refused)} of {len(rows)} records: {why}")
            _LOG.info("%s has refused %d records for the moment: %s", self.name, len(refused), why)
            rows = [rows[index] for index, _ in refused]
            time.sleep(pause * (0.5 + random.random()))
            pause = min(2 * pause, _LONGEST_PAUSE)


class KinesisLog(AwsLog):
    """A stream of Kinesis."""

    service = "kinesis"

    def check(self) -> None:
        _check(lambda: self.client().describe_stream_summary(**named(self.name)), f"stream {self.name}")

    def put(self, rows: list[Row], subtask: int) -> list[tuple[int, str]]:
        records = [{"Data": data, "PartitionKey": str(subtask) if key is None else key} for data, key in rows]
        answer = self.client().put_records(**named(self.name), Records=records)
        return _refused(answer["Records"]) if answer.get("FailedRecordCount") else []


class FirehoseLog(AwsLog):
    """A delivery stream of Firehose."""

    service = "firehose"

    def check(self) -> None:
        describe = self.client().describe_delivery_stream
        _check(lambda: describe(DeliveryStreamName=self.name), f"delivery stream {self.name}")

    def put(self, rows: list[Row], subtask: int) -> list[tuple[int, str]]:
        records = [{"Data": data} for data, _ in rows]
        answer = self.client().put_record_batch(DeliveryStreamName=self.name, Records=records)
        return _refused(answer["RequestResponses"]) if answer.get("FailedPutCount") else []


def _refused(answers: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [
        (index, f"{answer['ErrorCode']}: {answer.get('ErrorMessage', '')}")
        for index, answer in enumerate(answers)
        if answer.get("ErrorCode")
    ]


def _check(describe: Callable[[], Any], what: str) -> None:
    try:
        describe()
    except Exception as error:
        if code_of(error) == "ResourceNotFoundException":
            raise ConfigurationError(f"there is no {what} in this region: make it first, or mend its name") from error
        raise
