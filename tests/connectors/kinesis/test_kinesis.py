"""Streams of Kinesis as sources and sinks, against a server on loopback."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

import pytest

from beadline.common import Configuration, WatermarkStrategy
from beadline.common.serialization import SimpleStringSchema
from beadline.common.typeinfo import Types
from beadline.connectors.kinesis.aggregation import unpacked
from beadline.connectors.kinesis.source import KinesisReading, KinesisStepSource
from beadline.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from beadline.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisFirehoseSink,
    KinesisShardAssigner,
    KinesisStreamsSink,
    KinesisStreamsSource,
    PartitionKeyGenerator,
)
from beadline.errors import BeadlineError, ConfigurationError, UnsupportedFeatureError
from tests.connectors.kinesis.streams import LOGIN, Service, running_service

pytestmark = pytest.mark.usefixtures("local_engine")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with running_service() as running:
        yield running


def environment(batch: bool = True) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    if batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def consumer(service: Service, stream: str | list[str], **more: str) -> FlinkKinesisConsumer:
    properties = {
        **service.properties,
        "flink.stream.initpos": "TRIM_HORIZON",
        "flink.shard.getrecords.intervalmillis": "10",
    }
    return FlinkKinesisConsumer(stream, SimpleStringSchema(), {**properties, **more})


def reading(service: Service, *streams: str, **more: Any) -> KinesisStepSource:
    settings: dict[str, Any] = {"start": "horizon", "get_interval": 0.0, "discovery_interval": 0.0, **more}
    return KinesisStepSource(KinesisReading(streams, service.properties, SimpleStringSchema(), **settings))


def texts(source: KinesisStepSource, splits: list[Any]) -> list[str]:
    return [text for split in splits for batch, _ in source.read_batches(split.split) for text in batch]


def read_all(source: KinesisStepSource, position: dict[str, Any], rows: int = 1000) -> tuple[dict[str, Any], list[str]]:
    """What there is now."""
    found: list[str] = []
    for _ in range(30):
        position, splits = source.plan(position, rows, 2)
        found += texts(source, splits)
        if not splits and found:
            break
    return position, found


# -- the source


def test_a_stream_is_read_to_what_there_is_now_in_batch_mode(service: Service) -> None:
    service.make_stream("batch", shards=3)
    numbers = [str(n) for n in range(300)]
    service.put("batch", numbers)
    env = environment()
    found = list(env.add_source(consumer(service, "batch")).execute_and_collect())
    assert sorted(found, key=int) == numbers


def test_the_source_of_two_x_reads_an_arn(service: Service) -> None:
    arn = service.make_stream("by-arn")
    service.put("by-arn", ["a", "b"])
    configuration = Configuration()
    for key, value in {**service.properties, "source.init.position": "TRIM_HORIZON"}.items():
        configuration.set_string(key, value)
    builder = KinesisStreamsSource.builder().set_stream_arn(arn).set_deserialization_schema(SimpleStringSchema())
    source = builder.set_source_config(configuration)
    source = source.set_kinesis_shard_assigner(KinesisShardAssigner.uniform_shard_assigner())
    env = environment()
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "kinesis")
    assert sorted(stream.execute_and_collect()) == ["a", "b"]


def test_a_position_gives_the_same_records_again(service: Service) -> None:
    service.make_stream("again")
    service.put("again", [str(n) for n in range(100)])
    source = reading(service, "again")
    first, splits = source.plan(source.initial(), 20, 2)
    before = texts(source, splits)
    assert 0 < len(before) <= 20
    middle, splits = source.plan(first, 20, 2)
    one = texts(source, splits)
    _, splits = reading(service, "again").plan(first, 20, 2)
    assert texts(source, splits) == one
    _, rest = read_all(source, middle)
    assert sorted(before + one + rest, key=int) == [str(n) for n in range(100)]


def test_the_latest_is_what_comes_after_the_start_even_after_a_restart(service: Service) -> None:
    service.make_stream("latest", shards=1)
    service.put("latest", ["old"])
    time.sleep(1.1)  # the server's times are whole seconds
    source = reading(service, "latest", start="latest")
    position, splits = source.plan(source.initial(), 10, 1)
    assert texts(source, splits) == []
    service.put("latest", ["new"])
    _, found = read_all(reading(service, "latest", start="latest"), position)
    assert found == ["new"]


class Resharded:
    """A stream whose shard was split, as Kinesis answers. (The server that the other tests use moves records of a shard
    that is split, and never says that it has come to its end.)"""

    _RECORDS: ClassVar[dict[str, list[str]]] = {
        "parent": [f"before-{n}" for n in range(20)],
        "left": [f"left-{n}" for n in range(10)],
        "right": [f"right-{n}" for n in range(10)],
    }

    def list_shards(self, StreamName: str) -> dict[str, Any]:
        children = [{"ShardId": each, "ParentShardId": "parent"} for each in ("left", "right")]
        return {"Shards": [*children, {"ShardId": "parent", "ParentShardId": "long-gone"}]}

    def get_shard_iterator(self, ShardId: str, ShardIteratorType: str, **where: Any) -> dict[str, Any]:
        after = where.get("StartingSequenceNumber")
        return {"ShardIterator": f"{ShardId} {0 if after is None else int(after) + 1}"}

    def get_records(self, ShardIterator: str, Limit: int) -> dict[str, Any]:
        shard, start = ShardIterator.split()
        end = int(start) + Limit
        now = datetime.now(timezone.utc)
        records = [
            {"SequenceNumber": str(number), "ApproximateArrivalTimestamp": now, "Data": text.encode()}
            for number, text in enumerate(self._RECORDS[shard])
            if int(start) <= number < end
        ]
        ended = shard == "parent" and end >= len(self._RECORDS[shard])
        return {"Records": records, "NextShardIterator": None if ended else f"{shard} {end}", "MillisBehindLatest": 0}


def test_children_of_a_split_shard_come_after_their_parent(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beadline.connectors.kinesis.source.make_client", lambda *_: Resharded())
    source = reading(service, "split")
    position, found = source.initial(), []
    for _ in range(20):
        position, splits = source.plan(position, 5, 2)
        found += texts(source, splits)
        opened = set(source.parts(position))
        assert opened in ({"split/parent"}, {"split/left", "split/right"}, set()), "never a child next to its parent"
    assert found[:20] == Resharded._RECORDS["parent"]
    assert sorted(found[20:]) == sorted(Resharded._RECORDS["left"] + Resharded._RECORDS["right"])


def test_parts_that_are_held_are_not_read(service: Service) -> None:
    service.make_stream("held")
    service.put("held", [str(n) for n in range(40)])
    source = reading(service, "held")
    position, _ = source.plan(source.initial(), 1, 2)
    ahead = source.parts(position)[0]
    source.hold(frozenset({ahead}))
    for _ in range(5):
        before = position["shards"][ahead]
        position, splits = source.plan(position, 10, 2)
        assert ahead not in {split.part for split in splits}
        assert position["shards"][ahead] == before


def packed(*data: bytes) -> bytes:
    """As Amazon's producer library packs records that are shorter than 128 bytes."""
    records = b"".join(b"\x1a" + bytes([len(each) + 4, 8, 0, 0x1A, len(each)]) + each for each in data)
    message = b"\x0a\x03key" + records
    return b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message, usedforsecurity=False).digest()


def test_packed_records_are_unpacked(service: Service) -> None:
    assert unpacked(b"plain") == [b"plain"]
    assert unpacked(packed(b"one", b"", b"three")) == [b"one", b"", b"three"]
    damaged = packed(b"one")[:-1] + b"?"
    assert unpacked(damaged) == [damaged]
    service.make_stream("packed", shards=1)
    service.client().put_record(StreamName="packed", PartitionKey="k", Data=packed(b"x", b"y"))
    assert read_all(reading(service, "packed"), {})[1] == ["x", "y"]


# -- the sinks


def test_records_reach_a_stream_with_their_keys(service: Service) -> None:
    service.make_stream("out")
    builder = KinesisStreamsSink.builder().set_stream_name("out").set_serialization_schema(SimpleStringSchema())
    builder = builder.set_kinesis_client_properties(service.properties).set_max_batch_size(7)
    sink = builder.set_partition_key_generator(lambda text: f"key-{text}").build()
    env = environment(batch=False)
    env.from_collection([str(n) for n in range(50)], Types.STRING()).sink_to(sink)
    env.execute()
    found = service.read("out")
    assert sorted(int(text) for _, _, text in found) == list(range(50))
    assert all(key == f"key-{text}" for _, key, text in found)


@pytest.mark.parametrize("generator", [PartitionKeyGenerator.fixed(), PartitionKeyGenerator.random()])
def test_key_generators(generator: PartitionKeyGenerator, service: Service) -> None:
    name = f"keys-{id(generator)}"
    service.make_stream(name)
    builder = KinesisStreamsSink.builder().set_stream_name(name).set_serialization_schema(SimpleStringSchema())
    sink = builder.set_kinesis_client_properties(service.properties).set_partition_key_generator(generator).build()
    env = environment(batch=False)
    env.from_collection([str(n) for n in range(20)], Types.STRING()).sink_to(sink)
    env.execute()
    keys = {key for _, key, _ in service.read(name)}
    assert keys <= {"0", "1"} if generator._key_of is None else len(keys) == 20


def test_firehose_delivers(service: Service) -> None:
    service.client("s3").create_bucket(Bucket="delivered")
    service.client("firehose").create_delivery_stream(
        DeliveryStreamName="hose",
        ExtendedS3DestinationConfiguration={
            "RoleARN": "arn:aws:iam::1:role/any",
            "BucketARN": "arn:aws:s3:::delivered",
        },
    )
    builder = KinesisFirehoseSink.builder().set_delivery_stream_name("hose")
    builder = builder.set_serialization_schema(SimpleStringSchema()).set_firehose_client_properties(service.properties)
    env = environment(batch=False)
    env.from_collection(["a\n", "b\n", "c\n"], Types.STRING()).sink_to(builder.build())
    env.execute()
    s3 = service.client("s3")
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket="delivered").get("Contents", ())]
    lines = b"".join(s3.get_object(Bucket="delivered", Key=key)["Body"].read() for key in keys).split()
    assert sorted(lines) == [b"a", b"b", b"c"]


# -- killed drivers

_PROGRAM = """
import sys
from pyflink.common import SimpleStringSchema, Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, RollingPolicy
from pyflink.datastream.connectors.kinesis import FlinkKinesisConsumer

url, out = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(50)
properties = {
    "aws.region": "us-east-1",
    "aws.endpoint": url,
    "aws.credentials.provider.basic.accesskeyid": "any",
    "aws.credentials.provider.basic.secretkey": "any",
    "flink.stream.initpos": "TRIM_HORIZON",
    "flink.shard.getrecords.intervalmillis": "20",
}
stream = env.add_source(FlinkKinesisConsumer("killed", SimpleStringSchema(), properties))
sink = FileSink.for_row_format(out, Encoder.simple_string_encoder())
stream.sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())
env.execute("kinesis")
"""


def test_drivers_that_are_killed_read_each_record_once(service: Service, tmp_path: Path) -> None:
    service.make_stream("killed", shards=3)
    service.put("killed", [str(n) for n in range(600)])
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    options = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), "beadline.step.max-records": "30"}
    command = [sys.executable, "-m", "beadline.cli.main", "run", "--pyflink", "--engine", "local"]
    command += [each for key, value in options.items() for each in ("-D", f"{key}={value}")]
    command += [str(program), service.url, str(tmp_path / "out")]

    def rows() -> list[int]:
        # Staging folders come and go: os.walk() passes over one that has gone, Path.rglob() fails.
        paths = [
            os.path.join(folder, name)
            for folder, _, names in os.walk(tmp_path / "out")
            for name in names
            if name.startswith("part-") and "/.staging" not in folder
        ]
        return sorted(int(line) for path in paths for line in Path(path).read_text().split())

    for life in range(4):
        latest = ["-s", "latest"] if life else []
        driver = subprocess.Popen(
            [*command[:4], *latest, *command[4:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and len(rows()) < (600 if life == 3 else 150 * (life + 1)):
                time.sleep(0.02)
        finally:
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
    assert rows() == list(range(600))


# -- what can't work


def test_a_stream_that_does_not_exist_is_said(service: Service) -> None:
    env = environment()
    with pytest.raises(BeadlineError, match=r"nowhere.*no such stream"):
        list(env.add_source(consumer(service, "nowhere")).execute_and_collect())
    builder = KinesisStreamsSink.builder().set_stream_name("nowhere").set_serialization_schema(SimpleStringSchema())
    builder = builder.set_kinesis_client_properties(service.properties)
    sink = builder.set_partition_key_generator(PartitionKeyGenerator.random()).build()
    env = environment(batch=False)
    env.from_collection(["a"], Types.STRING()).sink_to(sink)
    with pytest.raises(BeadlineError, match="there is no stream nowhere"):
        env.execute()


@pytest.mark.parametrize(
    ("properties", "error", "words"),
    [
        ({"aws.regoin": "x"}, ConfigurationError, "'aws.regoin'"),
        ({}, ConfigurationError, "aws.region"),
        ({**LOGIN, "aws.credentials.provider": "SYS_PROP"}, ConfigurationError, "SYS_PROP"),
        ({**LOGIN, "flink.stream.recordpublisher": "EFO"}, UnsupportedFeatureError, "enhanced fan-out"),
        ({**LOGIN, "flink.stream.initpos": "HERE"}, ConfigurationError, "TRIM_HORIZON"),
        ({**LOGIN, "flink.stream.initpos": "AT_TIMESTAMP"}, ConfigurationError, "initpos.timestamp"),
    ],
)
def test_wrong_properties_are_refused(properties: dict[str, str], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        FlinkKinesisConsumer("s", SimpleStringSchema(), properties)


def test_keys_of_the_account_are_not_shown() -> None:
    source = FlinkKinesisConsumer("s", SimpleStringSchema(), LOGIN)
    shown = repr(source) + repr(source._make_source()) + repr(source._reading)
    assert "very-secret" not in shown
