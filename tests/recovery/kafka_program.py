"""Keyed sums from Kafka to Kafka, as a program to be killed and resumed: ``kafka_program.py SERVERS IN OUT PACE``.

It counts on what lies in the topic when it starts. Environment variables make it die at a certain point.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from beadline.common import Types, WatermarkStrategy
from beadline.common.outer_options import get_overrides
from beadline.common.serialization import SerializationSchema, SimpleStringSchema
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from beadline.datastream.functions import KeyedProcessFunction, RuntimeContext
from beadline.datastream.state import ValueStateDescriptor
from tests.recovery import dying, kafka_dying
from tests.recovery.jobs import ENGINE
from tests.sessions import start_session

PREFIX = "sums"
MASTER = "BEADLINE_TEST_MASTER"


class Sum(KeyedProcessFunction):
    """``key number`` in, ``key number sum`` out."""

    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._count = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self._count += 1
        if self._pace and self._count % 100 == 0:
            time.sleep(100 * self._pace)
        key, number = value.split()
        total = (self._sum.value() or 0) + int(number)
        self._sum.update(total)
        yield f"{key} {number} {total}"


class FirstWord(SerializationSchema):
    def serialize(self, value: Any) -> bytes:
        return str(value).split()[0].encode()


def _first_word(value: str) -> str:
    return value.split()[0]


def build(env: StreamExecutionEnvironment, servers: str, source: str, target: str, pace: float, timeout: int) -> None:
    """The job, in this environment."""
    records = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(source)
        .set_group_id(f"{source}-readers")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"{PREFIX}-{target}")
        .set_property("transaction.timeout.ms", str(timeout))
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(target)
            .set_key_serialization_schema(FirstWord())
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .build()
    )
    read = env.from_source(records, WatermarkStrategy.no_watermarks(), "records").uid("records")
    sums = read.key_by(_first_word, Types.STRING()).process(Sum(pace), Types.STRING()).uid("sums")
    sums.sink_to(sink).uid("kafka")


def main(servers: str, source: str, target: str, pace: str, timeout: str) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    for name in ("py4j", "kafka"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if dying.VARIABLE in os.environ:
        point = os.environ[dying.VARIABLE]
        if point in kafka_dying.POINTS:
            kafka_dying.prepare(point)
        else:
            dying.prepare(point, calls=2)
    if kafka_dying.WORKERS_DIE in os.environ:
        kafka_dying.let_workers_die(os.environ[kafka_dying.WORKERS_DIE])
    if get_overrides().get(ENGINE) != "local":
        start_session(os.environ.get(MASTER, "local[2]"))
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, servers, source, target, float(pace), int(timeout))
    env.execute("sums from Kafka to Kafka")
    print("the job has ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
