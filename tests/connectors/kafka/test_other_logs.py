"""An offset counts in one log only: a topic that was made again, or a log that was cut off, is noticed, whatever its
length is by then."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterator

import pytest

from beadline.connectors.kafka import source as source_module
from beadline.connectors.kafka.consumers import consumers
from beadline.connectors.kafka.source import KafkaStepSource
from beadline.connectors.source import Position
from beadline.datastream.connectors.kafka import KafkaSourceBuilder
from beadline.errors import InputError
from beadline.services import KafkaServer
from tests.connectors.kafka.reading import (
    builder,
    delete_records,
    make_again,
    new_topic,
    read_on,
    remake_topic,
    split_records,
    step_source,
    write,
)
from tests.nightly import NIGHTLY

pytestmark = pytest.mark.kafka

LENGTHS = pytest.mark.parametrize("length", [0, 4, 10, 15], ids=["empty", "shorter", "equal", "longer"])
# Each takes two starts of a broker. The log that has grown past the position is the hardest to notice.
CUT_OFF_LENGTHS = LENGTHS if NIGHTLY else pytest.mark.parametrize("length", [15], ids=["longer"])


@pytest.fixture(autouse=True)
def _no_consumers_left() -> Iterator[None]:
    yield
    consumers.close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_IDS_SECONDS", 0.2)
    monkeypatch.setattr(source_module, "_SHORT_SECONDS", 0.2)


def strict(kafka: KafkaServer, *topics: str) -> KafkaSourceBuilder:
    return builder(kafka, *topics).set_property("auto.offset.reset", "none")


def kept(position: Position) -> Position:
    """As a checkpoint keeps it."""
    found: Position = json.loads(json.dumps(position))
    return found


def plan_until_it_fails(source: KafkaStepSource, position: Position) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        position, splits = source.plan(position, 1000, 1)
        split_records(source, splits)
        time.sleep(0.05)


def begun(source: KafkaStepSource, position: Position) -> Position:
    """The position after a first step that reads nothing: a broker may not know a new topic for a moment."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        end, splits = source.plan(position, 1000, 1)
        if splits and all(split.split.start == split.split.end for split in splits):
            return end
        if splits:
            return position
        time.sleep(0.05)
    raise AssertionError("it does not begin")


# -- while the job runs


@LENGTHS
def test_a_topic_that_is_made_again_while_the_job_runs(kafka: KafkaServer, length: int) -> None:
    topic = new_topic(kafka, 2)
    write(kafka, topic, range(10))
    source = step_source(strict(kafka, topic))
    position, found = read_on(source, source.initial())
    assert len(found) == 10
    remake_topic(kafka, topic, 2)
    write(kafka, topic, range(length))
    time.sleep(source_module._IDS_SECONDS)
    with pytest.raises(InputError, match=f"topic '{topic}' was deleted and made again since offset 10 of {topic}-0"):
        plan_until_it_fails(source, position)
    source.stop()


@LENGTHS
def test_with_a_strategy_the_new_topic_is_read_from_its_beginning(
    kafka: KafkaServer, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(builder(kafka, topic))
    position, _ = read_on(source, source.initial())
    remake_topic(kafka, topic)
    write(kafka, topic, range(100, 100 + length))
    with caplog.at_level(logging.WARNING, "beadline.kafka"):
        until = time.monotonic() + 60
        while "was deleted and made again" not in caplog.text:
            position, splits = source.plan(position, 1000, 1)
            found = split_records(source, splits)
            assert time.monotonic() < until
            time.sleep(0.05)
    assert "RECORDS MAY BE MISSING" in caplog.text
    caplog.clear()
    position, more = read_on(source, position, at_least=length - len(found))
    assert [record for _, record in found] + more == [str(number) for number in range(100, 100 + length)]
    assert "RECORDS MAY BE MISSING" not in caplog.text, "the new offset is part of the position now"
    source.stop()


# -- between stop and resume


@LENGTHS
@pytest.mark.parametrize("reset", ["none", "earliest", "latest"])
def test_a_topic_that_is_made_again_before_the_job_resumes(kafka: KafkaServer, length: int, reset: str) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(builder(kafka, topic))
    position, _ = read_on(source, source.initial())
    source.stop()
    remake_topic(kafka, topic)
    write(kafka, topic, range(length))
    resumed = step_source(builder(kafka, topic).set_property("auto.offset.reset", reset))
    if reset == "none":
        with pytest.raises(InputError, match=r"deleted and made again.*beadline\.accept\.any\.topic"):
            plan_until_it_fails(resumed, kept(position))
    else:
        wanted = [str(number) for number in range(length)] if reset == "earliest" else []
        position, found = read_on(resumed, begun(resumed, kept(position)))
        assert found == wanted
        write(kafka, topic, ["after"])
        assert read_on(resumed, kept(position), at_least=1)[1] == ["after"]
    resumed.stop()


def test_a_job_that_goes_back_after_a_failure_looks_again(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its position may be one that was planned a moment ago."""
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(strict(kafka, topic))
    position, _ = read_on(source, source.initial())
    remake_topic(kafka, topic)
    write(kafka, topic, range(15))
    monkeypatch.setattr(source_module, "_IDS_SECONDS", 1000.0)
    for _ in range(2):
        assert source.begin(position)
        with pytest.raises(InputError, match="since offset 10 of"):
            plan_until_it_fails(source, position)
    source.stop()


def test_a_topic_that_was_away_is_looked_at(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka.admin import AdminClient

    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(strict(kafka, topic))
    position, _ = read_on(source, source.initial())
    monkeypatch.setattr(source_module, "_IDS_SECONDS", 1000.0)
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.delete_topics([topic])[topic].result(30)
    until = time.monotonic() + 60
    while source._patience._since is None:
        assert source.plan(position, 10, 1) == (position, [])
        assert time.monotonic() < until
        time.sleep(0.02)
    make_again(kafka, topic)
    write(kafka, topic, range(15))
    with pytest.raises(InputError, match="since offset 10 of"):
        plan_until_it_fails(source, position)
    source.stop()


def test_only_the_topic_that_was_made_again_is_reset(kafka: KafkaServer) -> None:
    same, other = new_topic(kafka), new_topic(kafka)
    for topic in (same, other):
        write(kafka, topic, range(5))
    source = step_source(builder(kafka, same, other))
    position, _ = read_on(source, source.initial())
    source.stop()
    remake_topic(kafka, other)
    write(kafka, other, range(100, 107))
    resumed = step_source(builder(kafka, same, other))
    assert read_on(resumed, kept(position), at_least=7)[1] == [str(number) for number in range(100, 107)]
    resumed.stop()


def test_a_copy_with_the_same_offsets_may_be_read_on(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(strict(kafka, topic))
    position, _ = read_on(source, source.initial())
    source.stop()
    remake_topic(kafka, topic)
    write(kafka, topic, range(12))
    resumed = step_source(strict(kafka, topic).set_property("beadline.accept.any.topic", "true"))
    position, found = read_on(resumed, kept(position))
    assert found == ["10", "11"]
    resumed.stop()


def test_a_position_of_an_earlier_version_names_no_topics(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(strict(kafka, topic))
    position, found = read_on(source, {"partitions": {f"{topic}-0": 4}, "stops": {}})
    assert found == [str(number) for number in range(4, 10)]
    source.stop()
    remake_topic(kafka, topic)
    write(kafka, topic, range(15))
    resumed = step_source(strict(kafka, topic))
    with pytest.raises(InputError, match="deleted and made again"):
        resumed.plan(kept(position), 10, 1)
    resumed.stop()


def test_an_earlier_position_gets_its_topics_though_nothing_arrives(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(3))
    source = step_source(strict(kafka, topic))
    position, splits = source.plan({"partitions": {f"{topic}-0": 3}, "stops": {}}, 10, 1)
    assert list(position["topics"]) == [topic]
    assert len(splits) == 1, "a step makes it part of the job's position"
    assert source.plan(position, 10, 1) == (position, [])
    source.stop()


# -- records that were deleted


def test_records_that_are_deleted_while_the_job_waits_for_more(kafka: KafkaServer) -> None:
    """The log begins after the position, and says so when the position is read."""
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(strict(kafka, topic))
    position, _ = source.plan(source.initial(), 4, 1)
    delete_records(kafka, topic, 0, 8)
    with pytest.raises(InputError, match=f"can't read {topic}-0 from offset 4 on"):
        plan_until_it_fails(source, position)
    with pytest.raises(InputError, match=rf"offset 4 of {topic}-0 is out of range: there are 8 to 10"):
        source.plan(position | {"partitions": {f"{topic}-0": 4}}, 10, 1)
    source.stop()


def test_what_was_read_may_be_deleted(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(strict(kafka, topic))
    position, _ = read_on(source, source.initial())
    delete_records(kafka, topic, 0, 10)
    write(kafka, topic, ["next"])
    assert read_on(source, position, at_least=1)[1] == ["next"]
    source.stop()
    resumed = step_source(strict(kafka, topic))
    assert read_on(resumed, kept(position), at_least=1)[1] == ["next"]
    resumed.stop()


# -- logs that were cut off


@pytest.fixture(scope="module")
def own_broker() -> Iterator[KafkaServer]:
    with KafkaServer() as server:
        yield server


def lose_the_log(broker: KafkaServer, topic: str) -> None:
    """What an election of a replica without records does to a log."""
    broker.stop()
    shutil.rmtree(broker.folder / "data" / f"{topic}-0")
    broker.start()


@pytest.mark.slow
@CUT_OFF_LENGTHS
def test_a_log_that_was_cut_off_while_the_job_runs(own_broker: KafkaServer, length: int) -> None:
    topic = new_topic(own_broker)
    write(own_broker, topic, range(10))
    source = step_source(strict(own_broker, topic))
    position, found = read_on(source, source.initial())
    assert len(found) == 10
    lose_the_log(own_broker, topic)
    write(own_broker, topic, range(length))
    said = rf"the log of {topic}-0 was cut off before offset 10|offset 10 of {topic}-0 is out of range: there are 0 to"
    with pytest.raises(InputError, match=said):
        plan_until_it_fails(source, position)
    source.stop()


@pytest.mark.slow
@CUT_OFF_LENGTHS
def test_a_log_that_was_cut_off_before_the_job_resumes(own_broker: KafkaServer, length: int) -> None:
    topic = new_topic(own_broker)
    write(own_broker, topic, range(10))
    source = step_source(strict(own_broker, topic))
    position, _ = read_on(source, source.initial())
    source.stop()
    lose_the_log(own_broker, topic)
    write(own_broker, topic, range(length))
    resumed = step_source(strict(own_broker, topic))
    said = rf"the log of {topic}-0 was cut off before offset 10|offset 10 of {topic}-0 is out of range: there are 0 to"
    with pytest.raises(InputError, match=said):
        plan_until_it_fails(resumed, kept(position))
    resumed.stop()
    resumed = step_source(builder(own_broker, topic))
    found: list[str] = []
    position = kept(position)
    until = time.monotonic() + 60
    while len(found) < length and time.monotonic() < until:
        position, more = read_on(resumed, position)
        found += more
    assert found == [str(number) for number in range(length)]
    resumed.stop()


@pytest.mark.slow
def test_a_task_that_meets_a_log_that_was_cut_off(own_broker: KafkaServer) -> None:
    """The driver has planned from the log as it was."""
    topic = new_topic(own_broker)
    write(own_broker, topic, range(10))
    source = step_source(strict(own_broker, topic))
    position, _ = source.plan(source.initial(), 5, 1)
    position, splits = source.plan(position, 5, 1)
    lose_the_log(own_broker, topic)
    write(own_broker, topic, range(20))
    with pytest.raises(InputError, match=f"can't read {topic}-0 from offset 5 on.*truncation"):
        split_records(source, splits)
    source.stop()


@pytest.mark.slow
def test_a_leader_that_changes_is_no_reason_to_stop(own_broker: KafkaServer, caplog: pytest.LogCaptureFixture) -> None:
    topic = new_topic(own_broker)
    write(own_broker, topic, range(10))
    source = step_source(strict(own_broker, topic))
    position, found = read_on(source, source.initial())
    (before,) = position["epochs"].values()
    own_broker.restart()
    write(own_broker, topic, range(10, 20))
    until = time.monotonic() + 60
    while len(found) < 20 and time.monotonic() < until:
        position, more = read_on(source, position)
        found += more
    assert found == [str(number) for number in range(20)]
    (after,) = position["epochs"].values()
    assert after > before
    source.stop()
    resumed = step_source(strict(own_broker, topic))
    assert read_on(resumed, kept(position))[1] == []
    resumed.stop()


# -- what it costs


def test_a_job_that_waits_asks_for_nothing_but_the_ends(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_IDS_SECONDS", 1000.0)
    topic = new_topic(kafka)
    write(kafka, topic, range(10))
    source = step_source(strict(kafka, topic))
    position, _ = read_on(source, source.initial())
    asked: list[str] = []
    for name in ("begins", "ends", "topic_ids", "cut_off", "topics"):
        told = getattr(source._brokers, name)
        monkeypatch.setattr(
            source._brokers, name, lambda *args, n=name, f=told, **kw: (asked.append(n), f(*args, **kw))[1]
        )
    for _ in range(5):
        time.sleep(0.03)
        assert source.plan(position, 10, 1) == (position, [])
    assert asked == ["ends"] * 5
    source.stop()
