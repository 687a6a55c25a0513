"""``beadline kafka transactions``: what a dead job left open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beadline.connectors.kafka.transactions import KafkaTransactions
from beadline.connectors.transactions import Fate
from beadline.services import KafkaServer
from tests.cli.conftest import Command
from tests.connectors.kafka.topics import fresh, make_topic, values

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(kafka: KafkaServer) -> str:
    return make_topic(kafka, "left")


@pytest.fixture
def transactions(kafka: KafkaServer) -> KafkaTransactions:
    return KafkaTransactions({"bootstrap.servers": kafka.bootstrap_servers}, timeout=60_000)


def left_open(transactions: KafkaTransactions, topic: str, prefix: str, count: int = 2) -> list[str]:
    ids = [f"{prefix}-{number}" for number in range(count)]
    for number, id in enumerate(ids):
        transactions.write(id, iter([[(topic, str(number).encode(), None, -1, 0, None)]]))
    return ids


def test_listing(beadline: Command, kafka: KafkaServer, topic: str, transactions: KafkaTransactions) -> None:
    prefix = fresh("listed")
    ids = left_open(transactions, topic, prefix)
    where = ("--bootstrap-servers", kafka.bootstrap_servers, "--prefix", prefix)
    done = beadline("kafka", "transactions", "list", *where)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["transactional", "id", "state", "producer", "epoch", "age", "timeout", "partitions"]
    assert [line.split()[:2] for line in lines[1:]] == [[id, "Ongoing"] for id in ids]
    assert all(line.endswith(f"60 s  {topic}-0") for line in map(str.rstrip, lines[1:]))
    told = json.loads(beadline("kafka", "transactions", "list", *where, "--json").stdout)
    assert [(each["id"], each["state"], each["partitions"]) for each in told] == [
        (id, "Ongoing", [f"{topic}-0"]) for id in ids
    ]
    for id in ids:
        transactions.abort_open(id)
    nothing = beadline("kafka", "transactions", "list", *where)
    assert nothing.stdout == f"No open transactions that begin with '{prefix}'.\n"


def test_committing_and_aborting(
    beadline: Command, kafka: KafkaServer, topic: str, transactions: KafkaTransactions
) -> None:
    prefix = fresh("ended")
    first, second, third = left_open(transactions, topic, prefix, 3)
    where = ("--bootstrap-servers", kafka.bootstrap_servers)
    done = beadline("kafka", "transactions", "commit", *where, "--yes", second)
    assert (done.returncode, done.stdout.splitlines()[1].split()) == (0, [second, "committed"]), done.stderr
    done = beadline("kafka", "transactions", "abort", *where, "--json", "--prefix", prefix)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"id": id, "done": True, "result": "aborted"} for id in (first, third)]
    assert values(kafka, topic) == ["1"]
    done = beadline("kafka", "transactions", "abort", *where, "--yes", second)
    assert (done.returncode, done.stdout.splitlines()[1].split()) == (1, [second, "was", "committed", "before"])
    done = beadline("kafka", "transactions", "commit", *where, "--yes", first, "no-such-id")
    assert done.returncode == 1
    assert "unknown to the broker" in done.stdout
    handle = {"id": second, "producer": transactions.coordinator.describe(second).producer_id, "epoch": 0}  # type: ignore[union-attr]
    assert transactions.commit(handle) is Fate.COMMITTED, "the job itself may come back"


def test_who_does_not_confirm_changes_nothing(
    beadline: Command, kafka: KafkaServer, topic: str, transactions: KafkaTransactions
) -> None:
    (id,) = left_open(transactions, topic, fresh("asked"), 1)
    done = beadline("kafka", "transactions", "abort", "--bootstrap-servers", kafka.bootstrap_servers, id)
    assert done.returncode == 1
    assert "Abort 1 transactions" in done.stdout
    assert transactions.list_open(id) == [id]
    transactions.abort_open(id)


def test_a_properties_file(beadline: Command, kafka: KafkaServer, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("# for tools\nclient.id = me\nrequest.timeout.ms=\\\n5000\n")
    where = ("--bootstrap-servers", kafka.bootstrap_servers, "--prefix", "none-")
    done = beadline("kafka", "transactions", "list", *where, "--command-config", "client.properties")
    assert (done.returncode, done.stdout) == (0, "No open transactions that begin with 'none-'.\n"), done.stderr
    (tmp_path / "client.properties").write_text("no.such.property = 1\n")
    done = beadline("kafka", "transactions", "list", *where, "--command-config", "client.properties")
    assert done.returncode == 1
    assert done.stderr.startswith("error: Kafka property 'no.such.property'")


def test_ids_or_a_prefix_are_needed(beadline: Command) -> None:
    done = beadline("kafka", "transactions", "abort", "--bootstrap-servers", "localhost:1")
    assert done.returncode == 2
    assert "by their ids, or by --prefix" in done.stderr
