"""A client that is not installed is said to be missing, with the extra it comes with, and no restart is tried."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from beadline.common import SimpleStringSchema, WatermarkStrategy
from beadline.connectors.kafka.source import KafkaStepSource
from beadline.datastream.connectors.base import DeliveryGuarantee
from beadline.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from beadline.datastream.connectors.kinesis import KinesisStreamsSink, KinesisStreamsSource, PartitionKeyGenerator
from beadline.errors import BeadlineError, EnvironmentSetupError
from tests.datastream.jobs import restarting

pytestmark = pytest.mark.usefixtures("local_engine")

Env = Any
ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/beads"


@pytest.fixture
def local_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEADLINE_ENGINE", "local")


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if it were not installed."""
    for name in [name for name in sys.modules if name.startswith(package + ".")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


def kafka_source(env: Env) -> Any:
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("127.0.0.1:1")
        .set_topics("orders")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")


def old_kafka_source(env: Env) -> Any:
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    return env.add_source(FlinkKafkaConsumer("orders", SimpleStringSchema(), settings))


def kafka_sink(env: Env, guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE) -> Any:
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic("orders")
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    builder = KafkaSink.builder().set_bootstrap_servers("127.0.0.1:1").set_record_serializer(serializer)
    sink = builder.set_delivery_guarantee(guarantee).set_transactional_id_prefix("t").build()
    return env.from_collection(["a"]).sink_to(sink)


def exactly_once_sink(env: Env) -> Any:
    return kafka_sink(env, DeliveryGuarantee.EXACTLY_ONCE)


def kafka_to_screen(env: Env) -> Any:
    return kafka_source(env).print()


def kinesis_source(env: Env) -> Any:
    builder = KinesisStreamsSource.builder().set_stream_arn(ARN).set_deserialization_schema(SimpleStringSchema())
    return env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "beads")


def kinesis_sink(env: Env) -> Any:
    builder = KinesisStreamsSink.builder().set_stream_name("beads").set_serialization_schema(SimpleStringSchema())
    properties = {"aws.region": "us-east-1"}
    sink = builder.set_kinesis_client_properties(properties).set_partition_key_generator(PartitionKeyGenerator.random())
    return env.from_collection(["a"]).sink_to(sink.build())


@pytest.mark.parametrize(
    ("package", "extra", "connect"),
    [
        ("confluent_kafka", "kafka", kafka_source),
        ("confluent_kafka", "kafka", old_kafka_source),
        ("confluent_kafka", "kafka", kafka_sink),
        ("kafka", "kafka", exactly_once_sink),
        ("boto3", "kinesis", kinesis_source),
        ("boto3", "kinesis", kinesis_sink),
    ],
)
def test_the_program_is_told_before_a_job_starts(
    package: str, extra: str, connect: Callable[[Env], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, package)
    with pytest.raises(EnvironmentSetupError, match=rf"pip install 'beadline\[{extra}\]'"):
        connect(restarting(2))


def ends_at_once(env: Env, match: str) -> None:
    client = env.execute_async()
    with pytest.raises(BeadlineError, match=match):
        client.get_job_execution_result().result()
    assert [failed for failed in client.get_exceptions() if failed["restarted_from"] is not None] == []


@pytest.mark.parametrize("connect", [kafka_sink, exactly_once_sink, kinesis_sink, kafka_to_screen])
def test_what_is_missing_later_ends_the_job_at_once(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of another machine, or workers, may lack it."""
    env = restarting(2, 1, execution__checkpointing__interval="50 ms")
    connect(env)
    for package in ("confluent_kafka", "boto3"):
        hide(monkeypatch, package)
    ends_at_once(env, r"pip install 'beadline\[(kafka|kinesis)\]'")


def test_a_source_of_the_programs_own_that_lacks_a_module_on_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    env = restarting(2, 1, execution__checkpointing__interval="50 ms")
    kafka_source(env).print()
    lacking = ModuleNotFoundError("No module named 'own_client'")

    def plan(*_: Any) -> Any:
        raise lacking

    monkeypatch.setattr(KafkaStepSource, "plan", plan)
    ends_at_once(env, "No module named 'own_client'")
