"""Systems outside that the histories of :mod:`tests.master.snapshots.lineages` write to, in transactions: a folder, a
broker, a database. They take nothing back."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg

from beadline.services import KafkaServer, PostgresServer
from tests.connectors.kafka.topics import fresh, values
from tests.connectors.transactions.ledger import visible
from tests.master.snapshots.lineages import System

_PARTITIONS = 48


class Outside(System):
    takes_back = False
    points = ("writing a transaction", "committing a transaction")


class LedgerSystem(Outside):
    name = "ledger"
    places = ("out0",)  # another folder is another system, which knows nothing of this one's transactions

    def make(self, root: Path, name: str) -> str:
        (root / name / ".pending").mkdir(parents=True)
        return str(root / name)

    def seen(self, place: str) -> list[str]:
        return visible(Path(place))


class KafkaSystem(Outside):
    name = "kafka"

    def __init__(self, kafka: KafkaServer) -> None:
        self._kafka = kafka
        self.url = kafka.bootstrap_servers

    def make(self, root: Path, name: str) -> str:
        from tests.connectors.kafka.topics import make_topic

        return make_topic(self._kafka, name, _PARTITIONS)

    def seen(self, place: str) -> list[str]:
        return values(self._kafka, place)


class PostgresSystem(Outside):
    name = "postgres"

    def __init__(self, postgres: PostgresServer) -> None:
        self.url = postgres.url

    def make(self, root: Path, name: str) -> str:
        table = f"{fresh(name)}_{os.urandom(3).hex()}".replace("-", "_")
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE {table} (line text)")
        return table

    def seen(self, place: str) -> list[str]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return [line for (line,) in connection.execute(f"SELECT line FROM {place}").fetchall()]
