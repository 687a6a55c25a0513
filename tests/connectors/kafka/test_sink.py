"""``KafkaSink`` and ``FlinkKafkaProducer`` in whole jobs, on a real broker and the local engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.common.serialization import SerializationSchema, SimpleStringSchema
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.connectors.kafka.coordinator import _library
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.kafka_sink import (
    DeliveryGuarantee,
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaTopicSelector,
    Semantic,
)
from beadline.datastream.connectors.socket import SocketSource
from beadline.errors import BeadlineError, ConfigurationError, SerializationError, TypeMismatchError
from beadline.services import KafkaServer
from tests.connectors.kafka.topics import fresh, make_topic, messages, values

ORDERS = [("ann", 1), ("bob", 2), ("ann", 3), ("cid", 400), ("bob", 500)]
ORDER = Types.TUPLE([Types.STRING(), Types.LONG()])
NOWHERE = "localhost:1"


class Name(SerializationSchema):
    def serialize(self, value: Any) -> bytes:
        return bytes(value[0], "ascii")


class Amount(SerializationSchema):
    def serialize(self, value: Any) -> bytes:
        return str(value[1]).encode()


class NoValueAbove100(SerializationSchema):
    def serialize(self, value: Any) -> Any:
        return str(value[1]).encode() if value[1] <= 100 else None


class NotBytes(SerializationSchema):
    def serialize(self, value: Any) -> Any:
        return value[1]


def environment(folder: Path | None = None, parallelism: int = 2) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("beadline.engine", "local")
    if folder is not None:
        configuration.set_string("execution.checkpointing.interval", "100 ms")
        configuration.set_string("execution.checkpointing.dir", str(folder / "checkpoints"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def serializer(topic: str | None) -> KafkaRecordSerializationSchemaBuilder:
    builder = KafkaRecordSerializationSchema.builder().set_value_serialization_schema(Amount())
    return builder.set_topic(topic) if topic is not None else builder


def write(
    kafka: KafkaServer,
    schema: KafkaRecordSerializationSchema,
    env: StreamExecutionEnvironment,
    guarantee: DeliveryGuarantee | None = None,
    orders: list[Any] = ORDERS,
) -> None:
    builder = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap_servers).set_record_serializer(schema)
    if guarantee is not None:
        builder.set_delivery_guarantee(guarantee)
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        builder.set_transactional_id_prefix(fresh("orders"))
    env.from_collection(orders, ORDER).sink_to(builder.build())
    env.execute("orders")


@pytest.mark.kafka
@pytest.mark.parametrize("guarantee", [None, *DeliveryGuarantee], ids=str)
@pytest.mark.parametrize("checkpoints", [True, False], ids=["with checkpoints", "without"])
def test_each_record_is_written_with_its_key(
    kafka: KafkaServer, tmp_path: Path, guarantee: DeliveryGuarantee | None, checkpoints: bool
) -> None:
    topic = make_topic(kafka, "orders", 3)
    schema = serializer(topic).set_key_serialization_schema(Name()).build()
    write(kafka, schema, environment(tmp_path if checkpoints else None, parallelism=1), guarantee)
    found = messages(kafka, topic)
    for name in ("ann", "bob", "cid"):
        mine = [message for message in found if message.key() == name.encode()]
        assert [int(message.value()) for message in mine] == [amount for owner, amount in ORDERS if owner == name]
        assert len({message.partition() for message in mine}) == 1, "a key has one partition"
    assert len(found) == len(ORDERS)


@pytest.mark.kafka
def test_keys_go_to_the_partitions_that_java_gives_them(kafka: KafkaServer) -> None:
    """Java's murmur2 of these names, modulo 7: what kafka-python computes, which follows Java."""
    _library()
    from kafka.partitioner.default import murmur2

    topic = make_topic(kafka, "partitioned", 7)
    names = [f"name-{number}" for number in range(40)]
    schema = serializer(topic).set_key_serialization_schema(Name()).build()
    write(kafka, schema, environment(), orders=[(name, 1) for name in names])
    expected = {name: (murmur2(name.encode()) & 0x7FFFFFFF) % 7 for name in names}
    assert {message.key().decode(): message.partition() for message in messages(kafka, topic)} == expected


class BySize(KafkaTopicSelector):
    def __init__(self, small: str, large: str) -> None:
        self._small, self._large = small, large

    def apply(self, data: Any) -> str:
        return self._small if data[1] < 100 else self._large


@pytest.mark.kafka
@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee), ids=str)
def test_a_topic_selector_and_headers(kafka: KafkaServer, tmp_path: Path, guarantee: DeliveryGuarantee) -> None:
    small, large = make_topic(kafka, "small"), make_topic(kafka, "large")
    schema = serializer(None).set_topic_selector(BySize(small, large)).set_header_provider(_headers).build()
    write(kafka, schema, environment(tmp_path), guarantee)
    assert sorted(values(kafka, small)) == ["1", "2", "3"]
    assert sorted(values(kafka, large)) == ["400", "500"]
    assert {message.value(): message.headers() for message in messages(kafka, large)} == {
        b"400": [("owner", b"cid"), ("none", None)],
        b"500": [("owner", b"bob"), ("none", None)],
    }


def _headers(order: Any) -> dict[str, bytes | None]:
    return {"owner": order[0].encode(), "none": None}


@pytest.mark.kafka
def test_partitions_by_a_function_and_values_that_are_none(kafka: KafkaServer) -> None:
    topic = make_topic(kafka, "placed", 3)
    builder = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_serialization_schema(Name())
    schema = builder.set_value_serialization_schema(NoValueAbove100()).set_partitioner(lambda o: o[1] % 3).build()
    write(kafka, schema, environment())
    found = {(m.partition(), m.key(), m.value()) for m in messages(kafka, topic)}
    assert found == {(1, b"ann", b"1"), (2, b"bob", b"2"), (0, b"ann", b"3"), (1, b"cid", None), (2, b"bob", None)}


class AmountAsTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 1_000_000 + int(value[1])


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ["KafkaSink", "FlinkKafkaProducer", "FlinkKafkaProducer without"])
def test_timestamps_of_records(kafka: KafkaServer, kind: str) -> None:
    topic = make_topic(kafka, "timed")
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(AmountAsTime())
    orders = env.from_collection(ORDERS, ORDER).assign_timestamps_and_watermarks(strategy)
    if kind == "KafkaSink":
        builder = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap_servers)
        orders.sink_to(builder.set_record_serializer(serializer(topic).build()).build())
    else:
        producer = FlinkKafkaProducer(topic, Amount(), {"bootstrap.servers": kafka.bootstrap_servers})
        producer.set_write_timestamp_to_kafka(kind == "FlinkKafkaProducer")
        orders.add_sink(producer)
    env.execute("timed")
    times = {int(message.value()): message.timestamp()[1] for message in messages(kafka, topic)}
    assert set(times) == {amount for _, amount in ORDERS}
    assert all((time == 1_000_000 + amount) == (kind != "FlinkKafkaProducer without") for amount, time in times.items())


@pytest.mark.kafka
@pytest.mark.parametrize("semantic", list(Semantic), ids=str)
def test_the_producer_of_pyflink_1(kafka: KafkaServer, tmp_path: Path, semantic: Semantic) -> None:
    topic = make_topic(kafka, "old")
    env = environment(tmp_path)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "transaction.timeout.ms": "60000"}
    producer = FlinkKafkaProducer(topic, SimpleStringSchema(), config, 3, semantic)
    env.from_collection(["one", "two", "three"], Types.STRING()).add_sink(producer)
    env.execute("old")
    assert sorted(values(kafka, topic)) == ["one", "three", "two"]


@pytest.mark.kafka
def test_values_that_are_not_bytes_are_refused(kafka: KafkaServer) -> None:
    topic = make_topic(kafka, "refused")
    schema = (
        KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(NotBytes()).build()
    )
    with pytest.raises(BeadlineError, match=r"NotBytes must give bytes for the value of a record in Kafka, got 1"):
        write(kafka, schema, environment())


@pytest.mark.kafka
def test_a_broker_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beadline.connectors.kafka.topics._ANSWER", 3)
    schema = serializer("any").build()
    sink = KafkaSink.builder().set_bootstrap_servers(NOWHERE).set_record_serializer(schema).build()
    env = environment(tmp_path)
    env.from_collection(ORDERS, ORDER).sink_to(sink)
    with pytest.raises((BeadlineError, OSError), match=f"No Kafka broker answers at {NOWHERE}"):
        env.execute("nowhere")


# -- what is refused before a job begins


def test_exactly_once_without_checkpoints_is_refused_in_a_job_that_never_ends() -> None:
    """Before anything is asked of the broker, which is not there."""
    env = environment()
    builder = KafkaSink.builder().set_bootstrap_servers(NOWHERE).set_record_serializer(serializer("t").build())
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("mine")
    orders = SocketSource("127.0.0.1", 1)
    env.from_source(orders, WatermarkStrategy.no_watermarks(), "orders").sink_to(builder.build()).name("to Kafka")
    with pytest.raises(ConfigurationError, match=r"'to Kafka'.*execution\.checkpointing\.interval.*AT_LEAST_ONCE"):
        env.execute()


def test_exactly_once_needs_a_prefix() -> None:
    builder = KafkaSink.builder().set_bootstrap_servers(NOWHERE).set_record_serializer(serializer("t").build())
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(ConfigurationError, match=r"needs set_transactional_id_prefix\(\)"):
        builder.build()
    builder.set_transactional_id_prefix("mine").build()


@pytest.mark.parametrize(
    ("name", "value"), [("acks", "1"), ("enable.idempotence", "false"), ("transactional.id", "mine")]
)
def test_exactly_once_refuses_what_breaks_it(name: str, value: str) -> None:
    builder = KafkaSink.builder().set_bootstrap_servers(NOWHERE).set_record_serializer(serializer("t").build())
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("mine")
    with pytest.raises(BeadlineError, match=name):
        builder.set_property(name, value).build()


def test_what_a_sink_and_a_serializer_need() -> None:
    with pytest.raises(ConfigurationError, match="set_bootstrap_servers"):
        KafkaSink.builder().set_record_serializer(serializer("t").build()).build()
    with pytest.raises(ConfigurationError, match="set_record_serializer"):
        KafkaSink.builder().set_bootstrap_servers(NOWHERE).build()
    with pytest.raises(ConfigurationError, match=r"set_topic\(\) or set_topic_selector\(\)"):
        serializer(None).build()
    with pytest.raises(ConfigurationError, match="set_value_serialization_schema"):
        KafkaRecordSerializationSchema.builder().set_topic("t").build()


def test_what_a_serializer_takes_only_once() -> None:
    with pytest.raises(ConfigurationError, match="topic is set already"):
        serializer("t").set_topic_selector(BySize("a", "b"))
    with pytest.raises(ConfigurationError, match=r"set_value_serialization_schema\(\) was called already"):
        serializer("t").set_value_serialization_schema(Name())
    with pytest.raises(TypeMismatchError, match="takes a SerializationSchema"):
        serializer("t").set_key_serialization_schema("ascii")  # type: ignore[arg-type]


def test_what_a_selector_partitioner_or_header_provider_gives_is_checked() -> None:
    def encoded(builder: KafkaRecordSerializationSchemaBuilder) -> list[Any]:
        return builder.build()._encoder()([("ann", 1)], None)

    assert encoded(serializer("t")) == [("t", b"1", None, -1, 0, None)]
    with pytest.raises(TypeMismatchError, match="topic selector must give the name of a topic, got 7"):
        encoded(serializer(None).set_topic_selector(lambda order: 7))  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeMismatchError, match="partitioner must give the number of a partition or None, got -1"):
        encoded(serializer("t").set_partitioner(lambda order: -1))
    with pytest.raises(TypeMismatchError, match="header is a name and bytes or None"):
        encoded(serializer("t").set_header_provider(lambda order: {"a": "text"}))  # type: ignore[dict-item,return-value]
    with pytest.raises(SerializationError, match="NotBytes must give bytes for the key"):
        encoded(serializer("t").set_key_serialization_schema(NotBytes()))
