"""Transactions that one process writes and any other finishes, on a real broker."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from beadline.connectors.kafka.transactions import KafkaTransactions
from beadline.connectors.transactions import Fate
from beadline.errors import ConfigurationError, EnvironmentSetupError, TransactionUnknownError
from beadline.services import KafkaServer
from tests.connectors.kafka.topics import fresh, make_topic, values

pytestmark = pytest.mark.kafka

COUNT = 1000
EXPECTED = [str(number) for number in range(COUNT)]


@pytest.fixture
def topic(kafka: KafkaServer) -> str:
    return make_topic(kafka, "written")


@pytest.fixture
def transactions(kafka: KafkaServer) -> KafkaTransactions:
    return KafkaTransactions({"bootstrap.servers": kafka.bootstrap_servers}, timeout=60_000)


def rows(topic: str, count: int = COUNT) -> Iterator[list[Any]]:
    every = [(topic, str(number).encode(), None, -1, 0, None) for number in range(count)]
    for first in range(0, count, 300):
        yield every[first : first + 300]


def threads() -> int:
    """Of this process, those of libraries too."""
    return len(os.listdir("/proc/self/task"))


def open_ids(transactions: KafkaTransactions, id: str) -> list[str]:
    return transactions.list_open(id)


def test_rows_are_invisible_until_they_are_committed(
    kafka: KafkaServer, topic: str, transactions: KafkaTransactions
) -> None:
    handle = transactions.write(fresh("one"), rows(topic))
    assert values(kafka, topic) == []
    assert values(kafka, topic, "read_uncommitted") == EXPECTED
    assert transactions.commit(handle) is Fate.COMMITTED
    assert values(kafka, topic) == EXPECTED


def test_a_producer_that_is_dropped_leaves_its_transaction_open(topic: str, transactions: KafkaTransactions) -> None:
    id = fresh("dropped")
    before = threads()
    transactions.write(id, rows(topic))
    assert threads() <= before, "its threads have ended"
    assert open_ids(transactions, id) == [id]
    transactions.abort_open(id)


def _write_and_die(pickled: bytes, id: str, topic: str, pipe: Any) -> None:
    handle = pickle.loads(pickled).write(id, rows(topic))
    pipe.send(handle)
    os._exit(9)


def test_another_process_commits_what_a_dead_one_wrote(
    kafka: KafkaServer, topic: str, transactions: KafkaTransactions
) -> None:
    here, there = multiprocessing.get_context("spawn").Pipe()
    arguments = (pickle.dumps(transactions), fresh("dead"), topic, there)
    writer = multiprocessing.get_context("spawn").Process(target=_write_and_die, args=arguments)
    writer.start()
    handle = here.recv()
    writer.join(30)
    assert writer.exitcode == 9
    assert values(kafka, topic) == []
    assert transactions.commit(handle) is Fate.COMMITTED
    assert transactions.commit(handle) is Fate.COMMITTED, "again, as on every restore"
    assert values(kafka, topic) == EXPECTED


def test_a_transaction_that_the_broker_aborts_for_its_age(kafka: KafkaServer, topic: str) -> None:
    short = KafkaTransactions({"bootstrap.servers": kafka.bootstrap_servers}, timeout=2000)
    handle = short.write(fresh("aged"), rows(topic))
    until = time.monotonic() + 60
    while open_ids(short, handle["id"]):
        assert time.monotonic() < until, "the broker does not end it"
        time.sleep(0.2)
    assert short.commit(handle) is Fate.ABORTED
    assert short.commit(handle) is Fate.ABORTED
    short.abort(handle)
    assert values(kafka, topic) == []
    again = short.write(fresh("again"), rows(topic))
    assert short.commit(again) is Fate.COMMITTED
    assert values(kafka, topic) == EXPECTED


def test_an_aborted_transaction_stays_aborted(kafka: KafkaServer, topic: str, transactions: KafkaTransactions) -> None:
    handle = transactions.write(fresh("aborted"), rows(topic))
    transactions.abort(handle)
    transactions.abort(handle)
    assert transactions.commit(handle) is Fate.ABORTED
    assert values(kafka, topic) == []


def test_strays_are_listed_by_their_prefix_and_aborted(
    kafka: KafkaServer, topic: str, transactions: KafkaTransactions
) -> None:
    prefix = fresh("stray")
    handles = [transactions.write(f"{prefix}-{number}", rows(topic, 10)) for number in range(3)]
    other = transactions.write(fresh("other"), rows(topic, 10))
    assert transactions.commit(handles[1]) is Fate.COMMITTED
    assert open_ids(transactions, f"{prefix}-") == [f"{prefix}-0", f"{prefix}-2"]
    for id in open_ids(transactions, f"{prefix}-"):
        transactions.abort_open(id)
    assert open_ids(transactions, f"{prefix}-") == []
    assert [transactions.commit(handle) for handle in handles] == [Fate.ABORTED, Fate.COMMITTED, Fate.ABORTED]
    assert transactions.commit(other) is Fate.COMMITTED
    assert values(kafka, topic) == 2 * EXPECTED[:10]


def test_a_committed_transaction_is_not_mistaken_for_a_stray(
    kafka: KafkaServer, topic: str, transactions: KafkaTransactions
) -> None:
    """It was open when it was listed, and committed before it could be aborted."""
    handle = transactions.write(fresh("raced"), rows(topic))
    assert transactions.commit(handle) is Fate.COMMITTED
    transactions.abort_open(handle["id"])
    assert transactions.commit(handle) is Fate.COMMITTED
    assert values(kafka, topic) == EXPECTED


def test_the_writer_of_a_stray_can_not_go_on(kafka: KafkaServer, topic: str, transactions: KafkaTransactions) -> None:
    id = fresh("zombie")

    def slow_rows() -> Iterator[list[Any]]:
        yield from rows(topic)
        until = time.monotonic() + 30
        while not open_ids(transactions, id):
            assert time.monotonic() < until
            time.sleep(0.05)
        transactions.abort_open(id)
        yield from rows(topic)

    with pytest.raises(OSError, match=r"could not be written to Kafka.*fenced"):
        transactions.write(id, slow_rows())
    assert open_ids(transactions, id) == []
    assert values(kafka, topic) == []


def test_an_id_that_the_broker_does_not_know(transactions: KafkaTransactions) -> None:
    handle = {"id": fresh("gone"), "producer": 7, "epoch": 0, "timeout": 60_000, "started": 0}
    with pytest.raises(TransactionUnknownError, match=r"forgotten the id.* h ago with a timeout of 60 s") as raised:
        transactions.commit(handle)
    assert handle["id"] in str(raised.value)


def test_an_id_that_belongs_to_another_producer(
    kafka: KafkaServer, topic: str, transactions: KafkaTransactions
) -> None:
    handle = transactions.write(fresh("foreign"), rows(topic))
    other = {**handle, "producer": handle["producer"] + 1000}
    with pytest.raises(TransactionUnknownError, match=f"not of producer {other['producer']}"):
        transactions.commit(other)
    assert values(kafka, topic) == []
    transactions.abort(other)
    assert transactions.commit(handle) is Fate.COMMITTED, "who has another producer's handle can't end it"


def test_rows_that_can_not_be_delivered_leave_nothing_open(
    kafka: KafkaServer, topic: str, transactions: KafkaTransactions
) -> None:
    id = fresh("large")
    large = [[(topic, bytes(3 << 20), None, -1, 0, None)]]
    transactions.config["message.max.bytes"] = 4 << 20
    with pytest.raises(ConfigurationError, match=r"max\.request\.size"):
        transactions.write(id, iter([*rows(topic), *large]))
    assert open_ids(transactions, id) == []
    assert values(kafka, topic) == []


def test_a_failure_of_who_gives_the_rows_leaves_nothing_open(
    kafka: KafkaServer, topic: str, transactions: KafkaTransactions
) -> None:
    id = fresh("failing")

    def failing() -> Iterator[list[Any]]:
        yield from rows(topic)
        raise OSError("a staged file is missing")

    with pytest.raises(OSError, match="a staged file is missing"):
        transactions.write(id, failing())
    assert open_ids(transactions, id) == []
    assert values(kafka, topic) == []


def test_a_timeout_that_the_broker_does_not_allow(kafka: KafkaServer) -> None:
    with pytest.raises(ConfigurationError, match=r"is 900001, .* allows 900000 \('transaction\.max\.timeout\.ms'\)"):
        KafkaTransactions({"bootstrap.servers": kafka.bootstrap_servers}, timeout=900_001).check()
    KafkaTransactions({"bootstrap.servers": kafka.bootstrap_servers}, timeout=900_000).check()


def test_without_a_timeout_it_is_as_long_as_the_broker_allows(topic: str, kafka: KafkaServer) -> None:
    transactions = KafkaTransactions({"bootstrap.servers": kafka.bootstrap_servers}, (topic,))
    transactions.check()
    handle = transactions.write(fresh("default"), rows(topic, 1))
    assert handle["timeout"] == 900_000
    assert transactions.commit(handle) is Fate.COMMITTED


def test_a_topic_that_can_not_be_written_to(kafka: KafkaServer) -> None:
    transactions = KafkaTransactions({"bootstrap.servers": kafka.bootstrap_servers}, ("no such topic!",))
    with pytest.raises(ConfigurationError, match="can't write to Kafka topic 'no such topic!'"):
        transactions.check()


def test_another_kafka_python_is_refused_by_name(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from beadline.connectors.kafka import coordinator

    monkeypatch.delattr(coordinator._library(), "_find_coordinator_id")
    with pytest.raises(EnvironmentSetupError, match="is incompatible: it has no _find_coordinator_id"):
        coordinator.Coordinator({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.mark.slow
def test_a_broker_that_is_away_for_a_while() -> None:
    """In a process of its own: kafka-python leaves sockets of connections that fail to the garbage collector, and tests
    take its warnings for errors."""
    with KafkaServer() as broker:
        topic = make_topic(broker, "away")
        here, there = multiprocessing.get_context("spawn").Pipe()
        arguments = (broker.bootstrap_servers, topic, there)
        away = multiprocessing.get_context("spawn").Process(target=_commit_when_it_is_back, args=arguments)
        away.start()
        assert here.recv() == "written"
        broker.stop()
        here.send("stopped")
        broker.start()
        assert here.recv() is Fate.COMMITTED
        assert values(broker, topic) == EXPECTED
        broker.stop()
        here.send("stopped for good")
        assert re.fullmatch(r"Could not commit transaction .* within 3 s: .*", here.recv())
        away.join(30)
        assert away.exitcode == 0


def _commit_when_it_is_back(servers: str, topic: str, pipe: Any) -> None:
    transactions = KafkaTransactions({"bootstrap.servers": servers}, timeout=60_000)
    handle = transactions.write(fresh("patient"), rows(topic))
    pipe.send("written")
    pipe.recv()
    pipe.send(transactions.commit(handle))
    pipe.recv()
    transactions.coordinator._patience = 3
    try:
        pipe.send(f"{transactions.commit(handle)}, and it is not there")
    except OSError as error:
        pipe.send(str(error))
