"""Sources that read Kinesis."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from beadline.api.function import SourceFunction
from beadline.common.configuration import Configuration
from beadline.common.option_texts import parse_duration_ms
from beadline.common.serialization import DeserializationSchema
from beadline.common.typeinfo import TypeInformation
from beadline.connectors.clients import require_client
from beadline.connectors.kinesis.client import checked
from beadline.connectors.kinesis.source import KinesisReading, KinesisStepSource
from beadline.datastream.connectors.base import Source
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError

# Of the consumer of PyFlink 1.x, and of the source of 2.x.
_OLD_POSITION, _POSITION = "flink.stream.initpos", "source.init.position"
_OLD_TIME, _TIME = "flink.stream.initpos.timestamp", "source.init.timestamp"
_OLD_FORMAT, _FORMAT = "flink.stream.initpos.timestamp.format", "source.init.timestamp.format"
_OLD_READER, _READER = "flink.stream.recordpublisher", "source.reader.type"
_OLD_DISCOVERY, _DISCOVERY = "flink.shard.discovery.intervalmillis", "source.shard.discovery.interval"
_OLD_MOST, _MOST = "flink.shard.getrecords.max", "source.shard.get-records.max-record-count"
_OLD_INTERVAL = "flink.shard.getrecords.intervalmillis"
_OLD = frozenset({_OLD_POSITION, _OLD_TIME, _OLD_FORMAT, _OLD_READER, _OLD_DISCOVERY, _OLD_MOST, _OLD_INTERVAL})
_NEW = frozenset({_POSITION, _TIME, _FORMAT, _READER, _DISCOVERY, _MOST})


class KinesisShardAssigner:
    """Which subtask reads which shard. Beadline deals shards out evenly, which is what the uniform one is for."""

    @staticmethod
    def uniform_shard_assigner() -> KinesisShardAssigner:
        return KinesisShardAssigner()


class KinesisDeserializationSchema:
    """A schema of Java's for whole records, which can't be used here."""

    def __init__(self, j_kinesis_deserialization_schema: Any) -> None:
        raise UnsupportedFeatureError(
            "KinesisDeserializationSchema wraps a class of Java, and Beadline runs without Java: give a "
            "DeserializationSchema such as SimpleStringSchema."
        )


class WatermarkTracker:
    """Keeps the watermarks of shards together, in PyFlink 1.x. Here watermarks are aligned by the strategy."""

    @staticmethod
    def job_manager_watermark_tracker(
        aggregate_name: str, log_accumulator_interval_millis: int = -1
    ) -> WatermarkTracker:
        return WatermarkTracker()


class FlinkKinesisConsumer(Source, SourceFunction):
    """Reads streams of Kinesis, for programs of PyFlink 1.x: ``env.add_source(FlinkKinesisConsumer(…))``.

    It starts with the records that come after the job was started, unless ``flink.stream.initpos`` says otherwise
    (``TRIM_HORIZON``, ``AT_TIMESTAMP``).

    :param streams: one name or several
    :param config_props: ``aws.region`` and so on
    """

    def __init__(
        self,
        streams: str | list[str],
        deserializer: DeserializationSchema,
        config_props: Mapping[str, Any],
    ) -> None:
        names = (streams,) if isinstance(streams, str) else tuple(dict.fromkeys(streams))
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ConfigurationError(f"FlinkKinesisConsumer(streams=…) takes names of streams, got {streams!r}.")
        properties = checked(config_props, "FlinkKinesisConsumer", _OLD)
        _check_reader(properties.get(_OLD_READER, "POLLING"), _OLD_READER)
        self._schema = _schema(deserializer)
        self._produced_type = deserializer.get_produced_type()
        self._reading = KinesisReading(
            names,
            _of_client(properties, _OLD),
            deserializer,
            _start(properties, _OLD_POSITION, _OLD_TIME, _OLD_FORMAT),
            int(properties.get(_OLD_MOST, 10_000)),
            int(properties.get(_OLD_INTERVAL, 200)) / 1000,
            int(properties.get(_OLD_DISCOVERY, 10_000)) / 1000,
        )

    def __repr__(self) -> str:
        return f"<FlinkKinesisConsumer of {', '.join(self._reading.streams)}>"

    def set_shard_assigner(self, shard_assigner: KinesisShardAssigner) -> FlinkKinesisConsumer:
        return self

    def set_periodic_watermark_assigner(self, periodic_watermark_assigner: Any) -> FlinkKinesisConsumer:
        raise UnsupportedFeatureError(
            "set_periodic_watermark_assigner() takes an object of Java's: use "
            "stream.assign_timestamps_and_watermarks(WatermarkStrategy…) right after add_source()."
        )

    def set_watermark_tracker(self, watermark_tracker: WatermarkTracker) -> FlinkKinesisConsumer:
        raise UnsupportedFeatureError(
            "set_watermark_tracker() is not supported: WatermarkStrategy.with_watermark_alignment(group, drift) keeps "
            "shards together."
        )

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()

    def _make_source(self) -> KinesisStepSource:
        require_client("boto3", "kinesis", "Kinesis")
        return KinesisStepSource(self._reading)


class KinesisStreamsSource(Source):
    """Reads a stream of Kinesis: ``env.from_source(KinesisStreamsSource.builder()…build(), …)``."""

    def __init__(self, reading: KinesisReading, produced_type: TypeInformation) -> None:
        self._reading = reading
        self._produced_type = produced_type

    def __repr__(self) -> str:
        return f"<KinesisStreamsSource of {self._reading.streams[0]}>"

    @staticmethod
    def builder() -> KinesisStreamsSourceBuilder:
        return KinesisStreamsSourceBuilder()

    def _make_source(self) -> KinesisStepSource:
        require_client("boto3", "kinesis", "Kinesis")
        return KinesisStepSource(self._reading)


class KinesisStreamsSourceBuilder:
    """Builds a :class:`KinesisStreamsSource`. An ARN and a schema are needed."""

    def __init__(self) -> None:
        self._arn = ""
        self._schema: DeserializationSchema | None = None
        self._config: dict[str, Any] = {}

    def set_stream_arn(self, stream_arn: str) -> KinesisStreamsSourceBuilder:
        self._arn = stream_arn
        return self

    def set_deserialization_schema(self, deserialization_schema: DeserializationSchema) -> KinesisStreamsSourceBuilder:
        self._schema = _schema(deserialization_schema)
        return self

    def set_kinesis_shard_assigner(self, shard_assigner: KinesisShardAssigner) -> KinesisStreamsSourceBuilder:
        return self

    def set_source_config(self, source_config: Configuration) -> KinesisStreamsSourceBuilder:
        self._config = dict(source_config.to_dict())
        return self

    def build(self) -> KinesisStreamsSource:
        parts = self._arn.split(":")
        if len(parts) != 6 or parts[2] != "kinesis" or not parts[5].startswith("stream/"):
            raise ConfigurationError(
                f"KinesisStreamsSource: set_stream_arn() takes an ARN such as "
                f"'arn:aws:kinesis:eu-central-1:123456789012:stream/name', got {self._arn!r}."
            )
        if self._schema is None:
            raise ConfigurationError("KinesisStreamsSource: set_deserialization_schema() is needed.")
        properties = checked({"aws.region": parts[3], **self._config}, "KinesisStreamsSource", _NEW)
        _check_reader(properties.get(_READER, "POLLING"), _READER)
        reading = KinesisReading(
            (self._arn,),
            _of_client(properties, _NEW),
            self._schema,
            _start(properties, _POSITION, _TIME, _FORMAT),
            int(properties.get(_MOST, 10_000)),
            discovery_interval=parse_duration_ms(properties.get(_DISCOVERY, "10 s")) / 1000,
        )
        return KinesisStreamsSource(reading, self._schema.get_produced_type())


def _schema(schema: Any) -> DeserializationSchema:
    if not isinstance(schema, DeserializationSchema):
        raise TypeMismatchError(f"a DeserializationSchema is needed, got {schema!r}")
    return schema


def _check_reader(kind: str, key: str) -> None:
    if kind.upper() != "POLLING":
        raise UnsupportedFeatureError(
            f"'{key}' is {kind}: Beadline polls shards and has no enhanced fan-out. Set it to POLLING, or leave it out."
        )


def _of_client(properties: Mapping[str, str], own: frozenset[str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key not in own}


def _start(properties: Mapping[str, str], position: str, timestamp: str, format: str) -> str | int:
    """Where a new job starts: ``latest``, ``horizon``, or a time in milliseconds."""
    kind = properties.get(position, "LATEST").upper()
    if kind == "LATEST":
        return "latest"
    if kind == "TRIM_HORIZON":
        return "horizon"
    if kind != "AT_TIMESTAMP":
        raise ConfigurationError(f"'{position}' must be LATEST, TRIM_HORIZON or AT_TIMESTAMP, got {kind!r}.")
    text = properties.get(timestamp)
    if text is None:
        raise ConfigurationError(f"'{position}' is AT_TIMESTAMP, which needs '{timestamp}'.")
    if format in properties:
        raise ConfigurationError(
            f"'{format}' is a pattern of Java's, which can't be used here: write '{timestamp}' as seconds since 1970 "
            "or as 2026-01-31T12:00:00Z."
        )
    try:
        return int(float(text) * 1000)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ConfigurationError(
            f"'{timestamp}' must be seconds since 1970 or a time such as 2026-01-31T12:00:00Z, got {text!r}."
        ) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp() * 1000)
