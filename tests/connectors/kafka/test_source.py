"""The Kafka source against a real broker, without an engine: plans on one side, tasks on the other."""

from __future__ import annotations

import logging
import pickle
import random
import time
from collections.abc import Iterator

import pytest

from beadline.common.serialization import SimpleStringSchema
from beadline.connectors.kafka import consumers as consumers_module
from beadline.connectors.kafka.consumers import consumers
from beadline.connectors.source import Part, Position, StepSource
from beadline.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from beadline.errors import ConfigurationError, InputError
from beadline.services import KafkaServer
from tests.connectors.kafka.reading import (
    builder,
    commit,
    delete_records,
    in_transaction,
    named,
    new_topic,
    read_all,
    read_on,
    split_records,
    step_source,
    write,
)

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def _no_consumers_left() -> Iterator[None]:
    yield
    consumers.close()


def numbers(*of: range) -> list[str]:
    return [str(number) for each in of for number in each]


# -- where it starts


def test_all_partitions_are_read_from_the_earliest_offset(kafka: KafkaServer) -> None:
    topic = new_topic(kafka, 3)
    for partition in range(3):
        write(kafka, topic, range(partition * 100, partition * 100 + 50), partition)
    assert sorted(read_all(builder(kafka, topic), rows=7)) == sorted(
        numbers(range(50), range(100, 150), range(200, 250))
    )


def test_the_latest_offsets_are_those_of_the_start(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(builder(kafka, topic, start=KafkaOffsetsInitializer.latest()))
    position, splits = source.plan(source.initial(), 100, 1)
    assert [split.split.end - split.split.start for split in splits] == [0], "a step that keeps where it started"
    write(kafka, topic, range(10, 15))
    # The step was lost, and there was no checkpoint.
    assert read_on(source, source.initial(), at_least=5)[1] == numbers(range(10, 15))
    assert read_on(source, position, at_least=5)[1] == numbers(range(10, 15))
    source.stop()


def test_the_latest_offsets_are_fixed_before_the_first_plan(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(builder(kafka, topic, start=KafkaOffsetsInitializer.latest()))
    assert source.begin(source.initial()), "from here on the job says that it runs"
    write(kafka, topic, range(10, 15))
    assert read_on(source, source.initial(), at_least=5)[1] == numbers(range(10, 15))
    source.stop()


def test_committed_offsets(kafka: KafkaServer) -> None:
    topic, group = new_topic(kafka, 2), named("group")
    write(kafka, topic, range(10), 0)
    write(kafka, topic, range(10, 15), 1)
    commit(kafka, group, topic, 0, 7)

    def starting(reset: KafkaOffsetResetStrategy) -> KafkaSourceBuilder:
        start = KafkaOffsetsInitializer.committed_offsets(reset)
        return builder(kafka, topic, start=start).set_group_id(group)

    assert sorted(read_all(starting(KafkaOffsetResetStrategy.EARLIEST))) == sorted(numbers(range(7, 15)))
    assert read_all(starting(KafkaOffsetResetStrategy.LATEST)) == ["7", "8", "9"]
    with pytest.raises(ConfigurationError, match=f"'{group}' has no committed offset for {topic}-1"):
        read_all(starting(KafkaOffsetResetStrategy.NONE))


def test_offsets_by_time(kafka: KafkaServer) -> None:
    topic = new_topic(kafka, 2)
    write(kafka, topic, range(5), 0, timestamp=1_000_000)
    write(kafka, topic, range(5, 8), 0, timestamp=2_000_000)
    write(kafka, topic, range(8, 10), 1, timestamp=1_000_000)
    assert read_all(builder(kafka, topic, start=KafkaOffsetsInitializer.timestamp(1_500_000))) == ["5", "6", "7"]


def test_offsets_as_given(kafka: KafkaServer) -> None:
    topic = new_topic(kafka, 2)
    write(kafka, topic, range(5), 0)
    write(kafka, topic, range(5, 8), 1)
    start = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 3})
    assert sorted(read_all(builder(kafka, topic, start=start))) == ["3", "4", "5", "6", "7"]


# -- where it ends


def test_a_bounded_source_ends_at_what_was_there(kafka: KafkaServer) -> None:
    topic = new_topic(kafka, 2)
    write(kafka, topic, range(5), 0)
    source = step_source(builder(kafka, topic).set_bounded(KafkaOffsetsInitializer.latest()))
    assert source.bounded
    position, splits = source.plan(source.initial(), 3, 1)
    write(kafka, topic, range(5, 9), 0)
    found = [record for _, record in split_records(source, splits)]
    assert not source.finished(position)
    assert source.parts(position) == [f"{topic}-0"], "partition 1 is empty, and has ended"
    position, more = read_on(source, position)
    assert found + more == numbers(range(5))
    assert source.finished(position)
    assert source.parts(position) == []
    source.stop()


def test_an_unbounded_source_may_stop(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(5))
    stop = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 8})
    source = step_source(builder(kafka, topic).set_unbounded(stop))
    assert not source.bounded
    position, found = read_on(source, source.initial())
    assert not source.finished(position)
    write(kafka, topic, range(5, 20))
    position, more = read_on(source, position, at_least=3)
    assert found + more == numbers(range(8))
    assert source.finished(position)
    source.stop()


def test_in_batch_mode_it_ends(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(5))
    source = builder(kafka, topic).build()._make_source()
    source.prepare(True)
    position, found = read_on(source, source.initial())
    assert source.bounded
    assert found == numbers(range(5))
    assert source.finished(position)
    source.stop()


# -- what it reads


def test_topics_by_pattern_and_new_ones(kafka: KafkaServer) -> None:
    prefix = named("orders")
    new_topic(kafka, name=f"{prefix}-eu")
    new_topic(kafka, name=f"old-{prefix}-eu")
    write(kafka, f"{prefix}-eu", ["a"])
    write(kafka, f"old-{prefix}-eu", ["not this"])
    made = KafkaSource.builder().set_topic_pattern(f"{prefix}-.*").set_bootstrap_servers(kafka.address)
    made.set_property("partition.discovery.interval.ms", "10")
    made.set_value_only_deserializer(SimpleStringSchema())
    source = step_source(made)
    position, found = read_on(source, source.initial())
    assert found == ["a"]
    new_topic(kafka, name=f"{prefix}-us")
    write(kafka, f"{prefix}-us", ["b", "c"])
    position, found = read_on(source, position, at_least=2)
    assert found == ["b", "c"]
    assert source.parts(position) == [f"{prefix}-eu-0", f"{prefix}-us-0"]
    source.stop()


def test_new_partitions_are_read_from_their_beginning(kafka: KafkaServer) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = new_topic(kafka)
    made = builder(kafka, topic, start=KafkaOffsetsInitializer.latest())
    source = step_source(made.set_property("partition.discovery.interval.ms", "10"))
    position, _ = source.plan(source.initial(), 10, 1)
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    write(kafka, topic, ["x"], 1)
    position, found = read_on(source, position, at_least=1)
    assert found == ["x"]
    assert position["partitions"] == {f"{topic}-0": 0, f"{topic}-1": 1}
    source.stop()


def test_some_partitions_only(kafka: KafkaServer) -> None:
    topic = new_topic(kafka, 3)
    for partition in range(3):
        write(kafka, topic, [partition], partition)
    chosen = {KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 2)}
    assert sorted(read_all(builder(kafka).set_partitions(chosen))) == ["0", "2"]
    with pytest.raises(ConfigurationError, match="has no partition 7, but 3"):
        read_all(builder(kafka).set_partitions({KafkaTopicPartition(topic, 7)}))


def test_a_part_that_is_held_stays_where_it_is(kafka: KafkaServer) -> None:
    topic = new_topic(kafka, 2)
    write(kafka, topic, range(5), 0)
    write(kafka, topic, range(5, 10), 1)
    source = step_source(builder(kafka, topic))
    position, _ = source.plan(source.initial(), 2, 1)
    source.hold(frozenset({f"{topic}-0"}))
    held, _ = read_on(source, position)
    assert held["partitions"] == {f"{topic}-0": position["partitions"][f"{topic}-0"], f"{topic}-1": 5}
    source.hold(frozenset())
    assert read_on(source, held)[0]["partitions"] == {f"{topic}-0": 5, f"{topic}-1": 5}
    source.stop()


# -- the same again


def steps(source: StepSource, position: Position, rows: int) -> list[list[object]]:
    planned = []
    while True:
        position, splits = source.plan(position, rows, 1)
        if not splits:
            return planned
        planned.append(splits)


def test_any_step_can_be_read_again_in_any_order(kafka: KafkaServer) -> None:
    topic = new_topic(kafka, 3)
    for partition in range(3):
        write(kafka, topic, range(partition * 10_000, partition * 10_000 + 7_000), partition)
    source = step_source(builder(kafka, topic))
    planned = steps(source, source.initial(), 4_000)
    assert len(planned) == 6
    first = [split_records(source, splits) for splits in planned]
    assert sorted(int(record) for step in first for _, record in step) == [
        number for partition in range(3) for number in range(partition * 10_000, partition * 10_000 + 7_000)
    ]
    chosen = random.Random(5).choices(range(len(planned)), k=15)
    for number in chosen:
        worker = pickle.loads(pickle.dumps(source))  # as it comes to a task
        assert split_records(worker, planned[number]) == first[number], "the same records in the same order"
    source.stop()


def test_what_was_fetched_too_early_is_kept(kafka: KafkaServer) -> None:
    """Steps of one partition while others have none, and of ranges that end within what was fetched."""
    topic = new_topic(kafka, 2)
    write(kafka, topic, range(1000), 0)
    write(kafka, topic, range(5000, 6000), 1)
    source = step_source(builder(kafka, topic))
    source.plan(source.initial(), 1, 1)
    source.hold(frozenset({f"{topic}-1"}))
    position, found = read_on(source, {"partitions": {f"{topic}-0": 0, f"{topic}-1": 0}, "stops": {}}, rows=9)
    assert found == numbers(range(1000))
    source.hold(frozenset())
    assert read_on(source, position, rows=333)[1] == numbers(range(5000, 6000))
    source.stop()


def test_consumers_that_nobody_uses_are_closed(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, other = new_topic(kafka), new_topic(kafka)
    for each in (topic, other):
        write(kafka, each, range(3))
    source, second = step_source(builder(kafka, topic)), step_source(builder(kafka, other))
    read_on(source, source.initial())
    (kept,) = consumers._idle[source._token]
    read_on(second, second.initial())
    assert consumers._idle[source._token] == [kept]
    monkeypatch.setattr(consumers_module, "_IDLE_SECONDS", 0.0)
    read_on(second, second.initial())
    assert consumers._idle[source._token] == []
    with pytest.raises(RuntimeError, match="closed"):
        kept._consumer.consume(1, 0)
    source.stop()
    second.stop()
    assert not consumers._idle.get(second._token)


def test_large_records_come_in_small_blocks(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = new_topic(kafka, 2)
    values = [f"{number:03}" + "x" * 1000 for number in range(300)]
    write(kafka, topic, values, 0)
    write(kafka, topic, values, 1)
    monkeypatch.setattr(consumers_module, "_BLOCK_BYTES", 20_000)
    monkeypatch.setattr(consumers_module, "_MOST_WAITING", (50, 1 << 20))
    source = step_source(builder(kafka, topic))
    position, splits = source.plan(source.initial(), 300, 1)
    batches = [item[0] for item in source.read_parts(splits) if not isinstance(item, Part)]
    assert max(len(batch) for batch in batches) == 20
    once = split_records(source, splits)
    assert once == split_records(source, splits)
    found = [record for _, record in once] + read_on(source, position, rows=7)[1]
    assert sorted(found) == sorted(values * 2)
    source.stop()


# -- transactions


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_markers_of_transactions_are_no_records(kafka: KafkaServer, rows: int) -> None:
    topic = new_topic(kafka)
    in_transaction(kafka, topic, range(5))
    in_transaction(kafka, topic, range(5, 8), "abort")
    in_transaction(kafka, topic, range(8, 10))
    uncommitted, committed = numbers(range(10)), numbers(range(5), range(8, 10))
    assert read_all(builder(kafka, topic), rows) == uncommitted
    made = builder(kafka, topic).set_property("isolation.level", "read_committed")
    assert read_all(made.set_bounded(KafkaOffsetsInitializer.latest()), rows) == committed


def test_a_range_of_markers_alone_can_be_read_again(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    in_transaction(kafka, topic, range(2))
    source = step_source(builder(kafka, topic))
    planned = steps(source, source.initial(), 1)
    assert len(planned) == 3, "two records and the marker"
    for number in (0, 1, 2, 2, 0, 2, 1, 2):
        assert [record for _, record in split_records(source, planned[number])] == numbers(range(2))[
            number : number + 1
        ]
    source.stop()


def test_an_open_transaction_holds_back_what_comes_after_it(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(3))
    writer = in_transaction(kafka, topic, range(3, 5), "leave open")
    write(kafka, topic, range(5, 7))
    source = step_source(builder(kafka, topic).set_property("isolation.level", "read_committed"))
    position, found = read_on(source, source.initial())
    assert found == numbers(range(3))
    writer.commit_transaction(30)
    assert read_on(source, position, at_least=4)[1] == numbers(range(3, 7))
    source.stop()


# -- bad input


def test_records_that_are_gone_are_told_and_passed_over(kafka: KafkaServer, caplog: pytest.LogCaptureFixture) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    position = {"partitions": {f"{topic}-0": 2}, "stops": {}}
    delete_records(kafka, topic, 0, 6)
    source = step_source(builder(kafka, topic))
    with caplog.at_level(logging.WARNING, "beadline.kafka"):
        assert read_on(source, position)[1] == numbers(range(6, 10))
    assert f"offset 2 of {topic}-0 is out of range: there are 6 to 10" in caplog.text
    source.stop()


def test_without_a_strategy_records_that_are_gone_are_an_error(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    delete_records(kafka, topic, 0, 6)
    source = step_source(builder(kafka, topic).set_property("auto.offset.reset", "none"))
    for offset in (2, 11):
        with pytest.raises(InputError, match=rf"offset {offset} of {topic}-0 is out of range"):
            source.plan({"partitions": {f"{topic}-0": offset}, "stops": {}}, 10, 1)
    source.stop()


def test_records_that_vanish_after_the_plan_fail_the_task_and_not_the_job(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(builder(kafka, topic))
    _, splits = source.plan(source.initial(), 5, 1)
    delete_records(kafka, topic, 0, 8)
    with pytest.raises(InputError, match=f"can't read {topic}-0 from offset 0 on"):
        split_records(source, splits)
    _, found = read_on(source, {"partitions": {f"{topic}-0": 0}, "stops": {}})  # as after a restart
    assert found == ["8", "9"]
    source.stop()


def test_a_topic_that_is_not_there(kafka: KafkaServer) -> None:
    with pytest.raises(ConfigurationError, match="there is no topic 'no-such-topic' at 127"):
        read_all(builder(kafka, "no-such-topic"))


@pytest.mark.parametrize("discovery", ["10", "-1"])
def test_a_topic_that_vanishes(kafka: KafkaServer, discovery: str) -> None:
    from confluent_kafka.admin import AdminClient

    topic = new_topic(kafka)
    write(kafka, topic, range(3))
    looking = {"default.api.timeout.ms": "2000", "partition.discovery.interval.ms": discovery}
    source = step_source(builder(kafka, topic).set_properties(looking))
    position, _ = read_on(source, source.initial())
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.delete_topics([topic])[topic].result(30)
    with pytest.raises(InputError, match=f"there is no topic '{topic}'|does not know {topic}-0 any more"):
        plan_for_a_minute(source, position)
    source.stop()


def plan_for_a_minute(source: StepSource, position: Position) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        source.plan(position, 10, 1)
        time.sleep(0.05)


def test_a_broker_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    made = KafkaSource.builder().set_bootstrap_servers("127.0.0.1:9").set_topics("a")
    made.set_value_only_deserializer(SimpleStringSchema())
    source = step_source(made.set_property("default.api.timeout.ms", "1000"))
    with caplog.at_level(logging.WARNING, "beadline.kafka"):
        assert source.plan({}, 10, 1) == ({}, [])
        assert "Kafka at 127.0.0.1:9 does not answer" in caplog.text
        assert "Trying again for 1 s" in caplog.text
        with pytest.raises(InputError, match="It has been asked for 1 s"):
            source.plan({}, 10, 1)
    source.stop()
