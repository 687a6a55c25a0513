"""A connection to look with, tables of a test's own, and users who may do little."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from beadline.connectors.postgres import PreparedTransactions, Server, Table
from beadline.connectors.postgres.sessions import close_all
from beadline.services import PostgresServer

PASSWORD = "Geh3im-und%lang"


@pytest.fixture
def sql(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """An administrator's session."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        yield connection
    close_all()


@pytest.fixture
def server(postgres: PostgresServer, sql: psycopg.Connection[Any]) -> Server:
    return Server.at(postgres.url)


@pytest.fixture
def name() -> str:
    """Of a table that nobody else uses."""
    return f"t_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def table(sql: psycopg.Connection[Any], name: str, postgres: PostgresServer) -> Iterator[str]:
    """A table of numbers and texts."""
    sql.execute(f"CREATE TABLE {name} (n bigint, word text)")
    yield name
    drop(postgres, name)


def drop(postgres: PostgresServer, name: str) -> None:
    """Remove a table, and what a test has left open. The server may have been restarted since the test began."""
    with psycopg.connect(postgres.url, autocommit=True) as fresh:
        for (gid,) in fresh.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            fresh.execute(f"ROLLBACK PREPARED '{gid}'")
        fresh.execute(f"DROP TABLE {name}")


@pytest.fixture
def transactions(server: Server, table: str) -> PreparedTransactions:
    made = PreparedTransactions(server, Table(table, ("n", "word")))
    made.check()
    return made


@pytest.fixture
def guest(sql: psycopg.Connection[Any], postgres: PostgresServer) -> Iterator[str]:
    """A user who may only look, and whose password is asked for."""
    user = f"guest_{uuid.uuid4().hex[:8]}"
    rules = postgres.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{before}")
    sql.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'")
    sql.execute("SELECT pg_reload_conf()")
    yield user
    close_all()
    rules.write_text(before)
    sql.execute("SELECT pg_reload_conf()")
    sql.execute(f"DROP OWNED BY {user}")
    sql.execute(f"DROP ROLE {user}")
