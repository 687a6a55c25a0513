"""Jobs that read Kafka: on the local engine, and a few on Spark."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from traceback import format_exception
from typing import Any

import pytest

from beadline.common import Configuration, Row, SimpleStringSchema, Types, WatermarkStrategy
from beadline.common.serialization import DeserializationSchema
from beadline.connectors.kafka.consumers import consumers
from beadline.datastream import OutputTag, StreamExecutionEnvironment
from beadline.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
)
from beadline.datastream.functions import MapFunction, ProcessFunction
from beadline.errors import InputError, JobExecutionError
from beadline.services import KafkaServer
from beadline.testing import VerifyingSink
from tests.connectors.kafka.reading import builder, committed, named, new_topic, remake_topic, write

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("engine")]

LATEST = KafkaOffsetsInitializer.latest()


@pytest.fixture(autouse=True)
def _no_consumers_left() -> Iterator[None]:
    yield
    consumers.close()


def environment(parallelism: int = 2, **options: Any) -> StreamExecutionEnvironment:
    settings = {"beadline.step.first-records": "100", "beadline.step.max-records": "100"}
    settings.update({key.replace("__", "."): str(value) for key, value in options.items()})
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    return env.set_parallelism(parallelism)


def filled(kafka: KafkaServer, partitions: int, each: int) -> tuple[str, list[str]]:
    """A topic with so many records in each partition, and what they are."""
    topic = new_topic(kafka, partitions)
    for partition in range(partitions):
        write(kafka, topic, range(partition * each, partition * each + each), partition)
    return topic, [str(number) for number in range(partitions * each)]


def collected(env: StreamExecutionEnvironment, source: Any, strategy: WatermarkStrategy | None = None) -> list[Any]:
    stream = env.from_source(source, strategy or WatermarkStrategy.no_watermarks(), "kafka")
    with stream.execute_and_collect() as results:
        return list(results)


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_every_record_once(kafka: KafkaServer, parallelism: int) -> None:
    topic, expected = filled(kafka, 3, 400)
    found = collected(environment(parallelism), builder(kafka, topic).set_bounded(LATEST).build())
    assert Counter(found) == Counter(expected)


@pytest.mark.parametrize("reset", ["none", "earliest"])
def test_a_topic_that_is_made_again_under_a_job(kafka: KafkaServer, tmp_path: Path, reset: str) -> None:
    topic, _ = filled(kafka, 1, 10)
    env = environment(
        1,
        **{
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "10 ms",
        },
    )
    source = builder(kafka, topic).set_property("auto.offset.reset", reset).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
    with stream.execute_and_collect() as results:
        assert [next(results) for _ in range(10)] == [str(number) for number in range(10)]
        remake_topic(kafka, topic)
        write(kafka, topic, range(100, 112))
        if reset == "none":
            with pytest.raises(InputError, match=rf"deleted and made again since offset \d+ of {topic}-0"):
                list(results)
        else:
            expected, found = [str(number) for number in range(100, 112)], list[str]()
            while found[-12:] != expected:
                found.append(next(results))


class FailsOnce(MapFunction):
    """Fails when it comes to a record for the first time, and takes its process with it if it is to."""

    def __init__(self, record: str, marker: Path, kill: bool = False) -> None:
        self._record, self._marker, self._kill = record, marker, kill

    def map(self, value: str) -> str:
        if value == self._record and not self._marker.exists():
            self._marker.touch()
            if self._kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("on purpose")
        return value


def run_with_a_failure(kafka: KafkaServer, folder: Path, kill: bool = False) -> None:
    topic, expected = filled(kafka, 3, 700)
    env = environment(
        2,
        **{
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "10 ms",
        },
    )
    group, sink = named("group"), VerifyingSink()
    source = builder(kafka, topic).set_bounded(LATEST).set_group_id(group).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
    stream.map(FailsOnce("650", folder / "failed", kill), Types.STRING()).sink_to(sink)
    env.execute("fails once")
    assert (folder / "failed").exists()
    sink.assert_exactly(expected)
    assert [committed(kafka, group, topic, partition) for partition in range(3)] == [700, 700, 700]


def test_a_failure_repeats_exactly_what_was_not_in_the_checkpoint(kafka: KafkaServer, tmp_path: Path) -> None:
    run_with_a_failure(kafka, tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("kill", [False, True], ids=["failure", "killed worker"])
def test_a_failure_on_spark(kafka: KafkaServer, tmp_path: Path, kill: bool) -> None:
    run_with_a_failure(kafka, tmp_path, kill)


@pytest.mark.parametrize("parallelism", [(1, 3), (3, 2)])
def test_a_savepoint_goes_on_with_another_parallelism(
    kafka: KafkaServer, tmp_path: Path, parallelism: tuple[int, int]
) -> None:
    topic, expected = filled(kafka, 4, 100)
    sink = VerifyingSink()

    def program(number: int, made: KafkaSourceBuilder, **options: str) -> StreamExecutionEnvironment:
        folder = tmp_path / "checkpoints"
        settings = {"execution.checkpointing.interval": "50 ms", "execution.checkpointing.dir": str(folder), **options}
        env = environment(number, **settings)
        stream = env.from_source(made.build(), WatermarkStrategy.no_watermarks(), "kafka").uid("kafka")
        stream.sink_to(sink).uid("out")
        return env

    client = program(parallelism[0], builder(kafka, topic)).execute_async("first")
    sink.wait_for(400, 60)
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    for partition in range(4):
        write(kafka, topic, [f"new {partition}"], partition)
    second = builder(kafka, topic).set_bounded(LATEST)
    program(parallelism[1], second, **{"execution.state-recovery.path": savepoint}).execute("first")
    sink.assert_exactly([*expected, *(f"new {partition}" for partition in range(4))])


def test_records_with_all_that_kafka_knows(kafka: KafkaServer) -> None:
    from confluent_kafka import Producer

    class Everything(KafkaRecordDeserializationSchema):
        def deserialize(self, record: KafkaRecord) -> Any:
            return None if record.value == b"skip" else tuple(record)

    topic = new_topic(kafka, 2)
    producer = Producer({"bootstrap.servers": kafka.address})
    producer.produce(topic, b"a", b"k", partition=1, timestamp=5000, headers=[("h", b"1"), ("h", b"2")])
    producer.produce(topic, b"skip", partition=1)
    producer.produce(topic, None, b"gone", partition=1, timestamp=6000)
    assert producer.flush(30) == 0
    made = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(topic).set_bounded(LATEST)
    assert collected(environment(), made.set_deserializer(Everything()).build()) == [
        (topic, 1, 0, 5000, b"k", b"a", (("h", b"1"), ("h", b"2"))),
        (topic, 1, 2, 6000, b"gone", None, ()),
    ]


class Times(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, ctx.timestamp()


def test_timestamps_come_from_kafka(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, ["a"], timestamp=1234)
    write(kafka, topic, ["b"], timestamp=5678)
    source = builder(kafka, topic).set_bounded(LATEST).build()
    stream = environment(1).from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "kafka")
    with stream.process(Times()).execute_and_collect() as results:
        assert list(results) == [("a", 1234), ("b", 5678)]


class Numbers(DeserializationSchema):
    """Whole numbers. Empty messages are none."""

    def deserialize(self, message: bytes) -> Any:
        return int(message) if message else None


class Pairs(DeserializationSchema):
    """Declares rows, and gives what it was told to give."""

    def __init__(self, gives: Any) -> None:
        super().__init__()
        self._gives = gives

    def deserialize(self, message: bytes) -> Any:
        return self._gives

    def get_produced_type(self) -> Any:
        return Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.INT()])


def test_a_schema_of_the_users_keeps_its_promise(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, ["x"])
    made = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(topic).set_bounded(LATEST)
    (row,) = collected(environment(1), made.set_value_only_deserializer(Pairs(Row("a", 1))).build())
    assert (row.name, row.number) == ("a", 1), "a row without names gets those of the type"
    with pytest.raises(JobExecutionError, match="kafka"):
        collected(environment(1), made.set_value_only_deserializer(Pairs("neither")).build())


def test_a_record_that_cant_be_read_is_named(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, [1, "", "two", 3])
    made = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(topic).set_bounded(LATEST)
    source = made.set_value_only_deserializer(Numbers()).build()
    with pytest.raises(JobExecutionError, match=rf"b'two' \(offset 2 of {topic}-0\)"):
        collected(environment(1), source)


def test_a_record_that_cant_be_read_can_go_to_the_side(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, [1, "", "two", 3])
    made = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(topic).set_bounded(LATEST)
    env = environment(
        1,
        **{
            "beadline.poison.action": "side-output",
            "beadline.poison.tries": "1",
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.dir": str(tmp_path),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "3",
            "restart-strategy.fixed-delay.delay": "1 ms",
        },
    )
    source = made.set_value_only_deserializer(Numbers()).build()
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
    bad = numbers.get_side_output(OutputTag("beadline-poison", Types.PICKLED_BYTE_ARRAY()))
    good, aside = VerifyingSink(), VerifyingSink()
    numbers.sink_to(good)
    bad.sink_to(aside)
    env.execute()
    good.assert_exactly([1, 3])
    aside.assert_exactly([b"two"])


def read_some(env: StreamExecutionEnvironment, consumer: FlinkKafkaConsumer, count: int) -> list[str]:
    """The next records that an old consumer gives."""
    with env.add_source(consumer).execute_and_collect() as results:
        return [next(results) for _ in range(count)]


def test_an_old_consumer_goes_on_where_its_group_stands(kafka: KafkaServer) -> None:
    topic, expected = filled(kafka, 1, 20)
    properties = {
        "bootstrap.servers": kafka.address,
        "group.id": named("group"),
        "auto.offset.reset": "earliest",
    }

    def consumer() -> FlinkKafkaConsumer:
        return FlinkKafkaConsumer(topics=topic, deserialization_schema=SimpleStringSchema(), properties=properties)

    assert read_some(environment(1), consumer(), 20) == expected
    assert committed(kafka, properties["group.id"], topic) == 20
    write(kafka, topic, ["new"])
    assert read_some(environment(1), consumer(), 1) == ["new"]
    assert read_some(environment(1), consumer().set_start_from_earliest(), 3) == expected[:3]


@pytest.mark.slow
def test_a_broker_that_goes_and_comes_back(tmp_path: Path) -> None:
    """The job waits for it, and neither loses nor repeats anything."""
    with KafkaServer() as server:
        topic = new_topic(server)
        write(server, topic, range(5000))
        env = environment(1, **{"execution.checkpointing.interval": "50 ms"})
        sink = VerifyingSink()
        source = builder(server, topic).build()
        env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").sink_to(sink)
        client = env.execute_async()
        sink.wait_for(300, 60)
        server.kill()
        time.sleep(2)  # the job asks in vain meanwhile
        server.start()
        sink.wait_for(5000, 60)
        server.kill()  # now there is nothing left to read
        server.start()
        write(server, topic, range(5000, 5100))
        sink.wait_for(5100, 60)
        client.cancel().result()
        sink.assert_exactly([str(number) for number in range(5100)])


def test_without_a_broker_the_restart_strategy_decides(caplog: pytest.LogCaptureFixture) -> None:
    env = environment(
        1,
        **{
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "1 ms",
        },
    )
    made = KafkaSource.builder().set_bootstrap_servers("127.0.0.1:9").set_topics("a")
    made.set_value_only_deserializer(SimpleStringSchema()).set_property("default.api.timeout.ms", "500")
    with caplog.at_level("WARNING", "beadline"), pytest.raises(InputError, match="does not answer"):
        collected(env, made.build())
    assert "Trying again" in caplog.text
    assert "attempt 1 failed: Kafka at 127.0.0.1:9 does not answer" in caplog.text


def test_a_password_is_nowhere_to_be_seen(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    made = KafkaSource.builder().set_bootstrap_servers("127.0.0.1:9").set_topics("a")
    made.set_value_only_deserializer(SimpleStringSchema()).set_properties(
        {
            "default.api.timeout.ms": "500",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.jaas.config": f'{module} required username="me" password="TopSecret";',
        }
    )
    source = made.build()
    env = environment(1, **{"execution.checkpointing.interval": "1 s", "restart-strategy.type": "none"})
    env.get_checkpoint_config().set_checkpoint_storage_dir(f"file://{tmp_path}")
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
    stream.print()
    plan = env.get_execution_plan()
    with caplog.at_level("DEBUG"), pytest.raises(InputError) as caught:
        env.execute()
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    texts = [plan, caplog.text, repr(source), repr(source._make_source()), "".join(format_exception(caught.value))]
    assert not any("TopSecret" in text for text in texts)
    assert not any(b"TopSecret" in content for content in files)


class Watermarks(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, ctx.timer_service().current_watermark()


def test_each_partition_has_a_watermark(kafka: KafkaServer) -> None:
    """The slow partition holds the watermark back, though the other one is read in the same subtask."""
    topic = new_topic(kafka, 2)
    for number in range(50):
        write(kafka, topic, ["ahead"], 0, timestamp=1_000_000 + number)
        write(kafka, topic, ["behind"], 1, timestamp=1_000 + number)
    source = builder(kafka, topic).set_bounded(LATEST).build()
    env = environment(1, **{"beadline.watermark.records": "1", "beadline.step.max-records": "10"})
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "kafka")
    with stream.process(Watermarks()).execute_and_collect() as results:
        found = list(results)
    assert len(found) == 100
    assert max(watermark for _, watermark in found) < 1_050


@pytest.mark.spark
def test_every_record_once_on_spark(kafka: KafkaServer) -> None:
    topic, expected = filled(kafka, 3, 3000)
    env = environment(2, **{"beadline.step.max-records": "2000"})
    found = collected(env, builder(kafka, topic).set_bounded(LATEST).build())
    assert Counter(found) == Counter(expected)
