"""Sinks that write to Kinesis and to Firehose."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Self

from beadline.common.serialization import SerializationSchema
from beadline.common.typeinfo import TypeInformation
from beadline.connectors.clients import require_client
from beadline.connectors.kinesis.client import checked
from beadline.connectors.kinesis.writing import AwsLog, FirehoseLog, KinesisLog, RecordEncoder
from beadline.connectors.sink import StagedSink
from beadline.connectors.transactions.sink import LogSink
from beadline.datastream.connectors.base import Sink
from beadline.errors import ConfigurationError, TypeMismatchError


class PartitionKeyGenerator:
    """Gives the partition key of a record. Beadline also takes any function of a record."""

    def __init__(self, key_of: Callable[[Any], str] | None) -> None:
        self._key_of = key_of

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """The number of the sink's subtask."""
        return PartitionKeyGenerator(None)

    @staticmethod
    def random() -> PartitionKeyGenerator:
        return PartitionKeyGenerator(_random_key)


def _random_key(record: Any) -> str:
    return uuid.uuid4().hex


class _AwsSink(Sink):
    def __init__(self, log: AwsLog, encoder: RecordEncoder) -> None:
        self._log = log
        self._encoder = encoder

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self._log.name}>"

    def _make_sink(self, type_info: TypeInformation) -> StagedSink:
        require_client("boto3", "kinesis", "Kinesis")
        return LogSink(self._log, self._encoder)


class KinesisStreamsSink(_AwsSink):
    """Writes to a stream of Kinesis, at least once."""

    @staticmethod
    def builder() -> KinesisStreamsSinkBuilder:
        return KinesisStreamsSinkBuilder()


class KinesisFirehoseSink(_AwsSink):
    """Writes to a delivery stream of Firehose, at least once."""

    @staticmethod
    def builder() -> KinesisFirehoseSinkBuilder:
        return KinesisFirehoseSinkBuilder()


class _SinkBuilder:
    """What both builders share. Records go out when their step is sealed, so nothing waits in a buffer."""

    _most_at_once = 500
    _most_bytes = 5 << 20
    _largest = 1 << 20

    def __init__(self) -> None:
        self._name = ""
        self._schema: SerializationSchema | None = None
        self._properties: dict[str, Any] = {}
        self._fail_on_error = False

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> Self:
        if not isinstance(serialization_schema, SerializationSchema):
            raise TypeMismatchError(f"a SerializationSchema is needed, got {serialization_schema!r}")
        self._schema = serialization_schema
        return self

    def set_fail_on_error(self, fail_on_error: bool) -> Self:
        """Whether a record that AWS refuses for the moment fails the job. If not, it is tried again for two minutes."""
        self._fail_on_error = fail_on_error
        return self

    def set_max_batch_size(self, max_batch_size: int) -> Self:
        self._most_at_once = _between(max_batch_size, 500, "set_max_batch_size")
        return self

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: int) -> Self:
        self._most_bytes = _between(max_batch_size_in_bytes, 10 << 20, "set_max_batch_size_in_bytes")
        return self

    def set_max_record_size_in_bytes(self, max_record_size_in_bytes: int) -> Self:
        self._largest = _between(max_record_size_in_bytes, 10 << 20, "set_max_record_size_in_bytes")
        return self

    def set_max_in_flight_requests(self, max_in_flight_requests: int) -> Self:
        """Has no effect: each subtask has one request under way, which keeps the order."""
        return self

    def set_max_buffered_requests(self, max_buffered_requests: int) -> Self:
        """Has no effect: records wait in the job's folder, not in a buffer."""
        return self

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: int) -> Self:
        """Has no effect: records go out when their step is sealed."""
        return self

    def _check(self, who: str, naming: str) -> tuple[dict[str, str], SerializationSchema]:
        if not self._name:
            raise ConfigurationError(f"{who}: {naming} is needed.")
        if self._schema is None:
            raise ConfigurationError(f"{who}: set_serialization_schema() is needed.")
        return checked(self._properties, who), self._schema

    def _limits(self) -> dict[str, Any]:
        return {
            "fail_on_error": self._fail_on_error,
            "max_batch": self._most_at_once,
            "max_batch_bytes": self._most_bytes,
            "max_record_bytes": self._largest,
        }


class KinesisStreamsSinkBuilder(_SinkBuilder):
    """Builds a :class:`KinesisStreamsSink`."""

    def __init__(self) -> None:
        super().__init__()
        self._key_of: Callable[[Any], str] | None = None
        self._has_generator = False

    def set_stream_name(self, stream_name: str) -> KinesisStreamsSinkBuilder:
        self._name = stream_name
        return self

    def set_stream_arn(self, stream_arn: str) -> KinesisStreamsSinkBuilder:
        self._name = stream_arn
        return self

    def set_kinesis_client_properties(self, kinesis_client_properties: Mapping[str, Any]) -> KinesisStreamsSinkBuilder:
        self._properties = dict(kinesis_client_properties)
        return self

    def set_partition_key_generator(
        self, partition_key_generator: PartitionKeyGenerator | Callable[[Any], str]
    ) -> KinesisStreamsSinkBuilder:
        given = partition_key_generator
        self._key_of = given._key_of if isinstance(given, PartitionKeyGenerator) else given
        self._has_generator = True
        return self

    def build(self) -> KinesisStreamsSink:
        properties, schema = self._check("KinesisStreamsSink", "set_stream_name()")
        if not self._has_generator:
            raise ConfigurationError(
                "KinesisStreamsSink: set_partition_key_generator() is needed: PartitionKeyGenerator.random() or "
                ".fixed(), or a function of a record."
            )
        return KinesisStreamsSink(
            KinesisLog(self._name, properties, **self._limits()), RecordEncoder(schema, self._key_of)
        )


class KinesisFirehoseSinkBuilder(_SinkBuilder):
    """Builds a :class:`KinesisFirehoseSink`."""

    _most_bytes = 4 << 20
    _largest = 1000 << 10

    def set_delivery_stream_name(self, delivery_stream_name: str) -> KinesisFirehoseSinkBuilder:
        self._name = delivery_stream_name
        return self

    def set_firehose_client_properties(
        self, firehose_client_properties: Mapping[str, Any]
    ) -> KinesisFirehoseSinkBuilder:
        self._properties = dict(firehose_client_properties)
        return self

    def build(self) -> KinesisFirehoseSink:
        properties, schema = self._check("KinesisFirehoseSink", "set_delivery_stream_name()")
        return KinesisFirehoseSink(FirehoseLog(self._name, properties, **self._limits()), RecordEncoder(schema, None))


def _between(value: int, most: int, what: str) -> int:
    if not 0 < value <= most:
        raise ConfigurationError(f"{what}({value}): it must be from 1 to {most}, which is what AWS takes.")
    return value
