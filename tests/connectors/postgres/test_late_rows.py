"""Rows that appear after higher ones were read would be lost: they are waited for, or the source says that it can't."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from beadline.connectors.postgres import PostgresReader, Reading, Server
from beadline.connectors.postgres.sessions import close_all
from beadline.connectors.source import Position
from beadline.errors import ConfigurationError, InputError
from beadline.services import PostgresServer
from tests.connectors.postgres.conftest import PASSWORD
from tests.connectors.postgres.standbys import Standby

pytestmark = pytest.mark.postgres

SQL = psycopg.Connection[Any]


def reader(server: Server, table: str | None, column: str = "n", **more: Any) -> PostgresReader:
    made = PostgresReader(server, Reading(table, more.pop("query", None), column, **{"poll_seconds": 0.05, **more}))
    made.prepare(batch=False)
    return made


def read_on(source: PostgresReader, position: Position) -> tuple[Position, list[str]]:
    """What may be read now."""
    source._looked_at = float("-inf")
    end, splits = source.plan(position, 1000, 1)
    return end, [row.word for split in splits for rows in source.read_batches(split) for row in rows]


@pytest.fixture
def schema(sql: SQL, name: str) -> Iterator[str]:
    """A schema of the test's own, and a sequence that its tables share."""
    sql.execute(f"CREATE SCHEMA {name}")
    sql.execute(f"CREATE SEQUENCE {name}.numbers")
    yield name
    close_all()
    sql.execute(f"DROP SCHEMA {name} CASCADE")


def new_table(sql: SQL, schema: str, name: str, more: str = "") -> None:
    sql.execute(f"CREATE TABLE {schema}.{name} (n bigint DEFAULT nextval('{schema}.numbers'), word text) {more}")


def is_complete(sql: SQL, postgres: PostgresServer, source: PostgresReader, late: str, early: str) -> None:
    """A first writer draws a number, a second one draws the next and commits: the first one is waited for."""
    position = source.initial()
    with psycopg.connect(postgres.url) as slow:
        slow.execute(f"INSERT INTO {late} (word) VALUES ('late')")
        sql.execute(f"INSERT INTO {early} (word) VALUES ('early')")
        for _ in range(3):
            position, found = read_on(source, position)
            assert found == []
    assert read_on(source, position)[1] == ["late", "early"]


# -- what lies below


def test_a_view_waits_for_the_writers_of_its_tables(
    server: Server, sql: SQL, schema: str, postgres: PostgresServer
) -> None:
    new_table(sql, schema, "one")
    new_table(sql, schema, "other")
    sql.execute(f"CREATE VIEW {schema}.both AS TABLE {schema}.one UNION ALL TABLE {schema}.other")
    sql.execute(f"CREATE VIEW {schema}.above AS SELECT * FROM {schema}.both WHERE word <> 'x'")
    is_complete(sql, postgres, reader(server, f"{schema}.above"), f"{schema}.one", f"{schema}.other")


def test_a_view_does_not_wait_for_other_tables(server: Server, sql: SQL, schema: str, postgres: PostgresServer) -> None:
    new_table(sql, schema, "one")
    new_table(sql, schema, "another")
    sql.execute(f"CREATE VIEW {schema}.above AS TABLE {schema}.one")
    source = reader(server, f"{schema}.above")
    sql.execute(f"INSERT INTO {schema}.one (word) VALUES ('there')")
    with psycopg.connect(postgres.url) as slow:
        slow.execute(f"INSERT INTO {schema}.another (word) VALUES ('of no matter')")
        assert read_on(source, source.initial())[1] == ["there"]


def test_a_view_that_calls_a_function_waits_for_everybody(
    server: Server, sql: SQL, schema: str, postgres: PostgresServer
) -> None:
    new_table(sql, schema, "hidden")
    sql.execute(
        f"CREATE FUNCTION {schema}.rows() RETURNS TABLE (n bigint, word text) LANGUAGE sql AS "
        f"'SELECT n, word FROM {schema}.hidden'"
    )
    sql.execute(f"CREATE VIEW {schema}.above AS SELECT * FROM {schema}.rows()")
    is_complete(sql, postgres, reader(server, f"{schema}.above"), f"{schema}.hidden", f"{schema}.hidden")


def test_children_that_inherit(server: Server, sql: SQL, schema: str, postgres: PostgresServer) -> None:
    new_table(sql, schema, "parent")
    new_table(sql, schema, "child", f"INHERITS ({schema}.parent)")
    new_table(sql, schema, "grandchild", f"INHERITS ({schema}.child)")
    is_complete(sql, postgres, reader(server, f"{schema}.parent"), f"{schema}.grandchild", f"{schema}.parent")


def test_a_view_over_a_partitioned_table(server: Server, sql: SQL, schema: str, postgres: PostgresServer) -> None:
    new_table(sql, schema, "parent", "PARTITION BY RANGE (n)")
    sql.execute(f"CREATE TABLE {schema}.part PARTITION OF {schema}.parent FOR VALUES FROM (0) TO (100)")
    sql.execute(f"CREATE VIEW {schema}.above AS TABLE {schema}.parent")
    is_complete(sql, postgres, reader(server, f"{schema}.above"), f"{schema}.part", f"{schema}.parent")


# -- what changes while the job runs


def test_a_child_that_is_added(server: Server, sql: SQL, schema: str, postgres: PostgresServer) -> None:
    new_table(sql, schema, "parent")
    source = reader(server, f"{schema}.parent")
    sql.execute(f"INSERT INTO {schema}.parent (word) VALUES ('first')")
    position, found = read_on(source, source.initial())
    assert found == ["first"]
    new_table(sql, schema, "child", f"INHERITS ({schema}.parent)")
    with psycopg.connect(postgres.url) as slow:
        slow.execute(f"INSERT INTO {schema}.child (word) VALUES ('late')")
        sql.execute(f"INSERT INTO {schema}.parent (word) VALUES ('early')")
        position, found = read_on(source, position)
        assert found == []
    assert read_on(source, position)[1] == ["late", "early"]


def test_a_child_that_nobody_else_can_see_yet(server: Server, sql: SQL, schema: str, postgres: PostgresServer) -> None:
    new_table(sql, schema, "parent")
    source = reader(server, f"{schema}.parent")
    position = source.initial()
    with psycopg.connect(postgres.url) as slow:
        slow.execute(f"CREATE TABLE {schema}.child () INHERITS ({schema}.parent)")
        slow.execute(f"INSERT INTO {schema}.child VALUES (nextval('{schema}.numbers'), 'late')")
        sql.execute(f"INSERT INTO {schema}.parent (word) VALUES ('early')")
        position, found = read_on(source, position)
        assert found == []
    assert read_on(source, position)[1] == ["late", "early"]


def test_a_table_that_a_view_replaces(server: Server, sql: SQL, schema: str, postgres: PostgresServer) -> None:
    new_table(sql, schema, "orders")
    source = reader(server, f"{schema}.orders")
    sql.execute(f"INSERT INTO {schema}.orders (word) VALUES ('first')")
    position, _ = read_on(source, source.initial())
    with sql.transaction():
        sql.execute(f"ALTER TABLE {schema}.orders RENAME TO orders_below")
        sql.execute(f"CREATE VIEW {schema}.orders AS TABLE {schema}.orders_below")
    with psycopg.connect(postgres.url) as slow:
        slow.execute(f"INSERT INTO {schema}.orders_below (word) VALUES ('late')")
        sql.execute(f"INSERT INTO {schema}.orders_below (word) VALUES ('early')")
        position, found = read_on(source, position)
        assert found == []
    assert read_on(source, position)[1] == ["late", "early"]


def test_a_table_that_is_made_again(server: Server, sql: SQL, schema: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its numbers begin again: the user hears of the rows that are left out. A checkpoint knows the table, too."""
    table = f"{schema}.orders"
    sql.execute(f"CREATE TABLE {table} (n bigserial, word text)")
    sql.execute(f"INSERT INTO {table} (word) SELECT 'old' FROM generate_series(1, 3)")
    source = reader(server, table)
    position, _ = read_on(source, source.initial())
    assert read_on(source, position) == (position, [])
    sql.execute(f"DROP TABLE {table}")
    sql.execute(f"CREATE TABLE {table} (n bigserial, word text)")
    sql.execute(f"INSERT INTO {table} (word) VALUES ('a'), ('b'), ('c'), ('d')")
    for each in (source, reader(server, table)):
        caplog.clear()
        end, found = read_on(each, json.loads(json.dumps(position)))
        assert found == ["d"]
        assert "is another relation than before" in caplog.text
        assert "up to 3 count as read" in caplog.text
        caplog.clear()
        assert read_on(each, end) == (end, [])
        assert not caplog.text


def test_a_position_of_an_earlier_version_names_no_table(
    server: Server, sql: SQL, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    new_table(sql, schema, "orders")
    sql.execute(f"INSERT INTO {schema}.orders (word) VALUES ('a'), ('b')")
    end, found = read_on(reader(server, f"{schema}.orders"), {"after": "1", "end": None})
    assert found == ["b"]
    assert "relation" in end
    assert not caplog.text


def test_a_table_that_becomes_a_materialized_view(server: Server, sql: SQL, schema: str) -> None:
    new_table(sql, schema, "orders")
    source = reader(server, f"{schema}.orders")
    position, _ = read_on(source, source.initial())
    sql.execute(f"ALTER TABLE {schema}.orders RENAME TO below")
    sql.execute(f"CREATE MATERIALIZED VIEW {schema}.orders AS TABLE {schema}.below")
    sql.execute(f"INSERT INTO {schema}.below (word) VALUES ('x')")
    with pytest.raises(InputError, match=f"{schema}.orders is a materialized view"):
        read_on(source, position)


# -- what the server does not show


@pytest.mark.parametrize("name", ["far", "above"])
def test_a_foreign_table(name: str, server: Server, sql: SQL, schema: str) -> None:
    sql.execute(f"CREATE FOREIGN DATA WRAPPER {schema}")
    sql.execute(f"CREATE SERVER {schema} FOREIGN DATA WRAPPER {schema}")
    try:
        sql.execute(f"CREATE FOREIGN TABLE {schema}.far (n bigint, word text) SERVER {schema}")
        sql.execute(f"CREATE VIEW {schema}.above AS TABLE {schema}.far")
        with pytest.raises(ConfigurationError, match=r"far is a foreign table.*set_lag"):
            reader(server, f"{schema}.{name}")
    finally:
        sql.execute(f"DROP FOREIGN DATA WRAPPER {schema} CASCADE")


def test_a_materialized_view(server: Server, sql: SQL, schema: str) -> None:
    new_table(sql, schema, "below")
    sql.execute(f"CREATE MATERIALIZED VIEW {schema}.kept AS TABLE {schema}.below")
    sql.execute(f"CREATE VIEW {schema}.above AS TABLE {schema}.kept")
    for given in ({"table": f"{schema}.above"}, {"table": None, "query": f"SELECT * FROM {schema}.above"}):
        with pytest.raises(ConfigurationError, match=r"kept is a materialized view.*set_lag"):
            reader(server, **given)


@pytest.mark.slow
def test_a_table_that_a_subscription_fills(server: Server, sql: SQL, schema: str) -> None:
    columns = "(n bigint, word text, at timestamptz)"
    with PostgresServer({"wal_level": "logical"}) as publisher, psycopg.connect(publisher.url, autocommit=True) as far:
        far.execute(f"CREATE SCHEMA {schema}")
        for each in (far, sql):
            each.execute(f"CREATE TABLE {schema}.orders {columns} PARTITION BY RANGE (n)")
            each.execute(f"CREATE TABLE {schema}.part PARTITION OF {schema}.orders FOR VALUES FROM (0) TO (100)")
        far.execute(f"CREATE PUBLICATION {schema} FOR TABLE {schema}.orders WITH (publish_via_partition_root)")
        before = reader(server, f"{schema}.part")
        sql.execute(f"CREATE SUBSCRIPTION {schema} CONNECTION '{publisher.url}' PUBLICATION {schema}")
        try:
            for name in ("orders", "part"):
                with pytest.raises(ConfigurationError, match=f"{schema}.{name} is filled by a subscription"):
                    reader(server, f"{schema}.{name}")
            with pytest.raises(InputError, match="is filled by a subscription"):
                read_on(before, before.initial())
            reader(server, f"{schema}.orders", column="at", lag=60.0)
        finally:
            sql.execute(f"DROP SUBSCRIPTION {schema}")


def test_who_may_only_read_can_ask_all_this(
    server: Server, sql: SQL, schema: str, guest: str, postgres: PostgresServer
) -> None:
    new_table(sql, schema, "orders")
    sql.execute(f"CREATE VIEW {schema}.above AS TABLE {schema}.orders")
    sql.execute(f"GRANT USAGE ON SCHEMA {schema} TO {guest}")
    sql.execute(f"GRANT SELECT ON {schema}.above TO {guest}")
    reading = Server.at(f"postgresql://127.0.0.1:{postgres.port}/postgres", guest, PASSWORD)
    is_complete(sql, postgres, reader(reading, f"{schema}.above"), f"{schema}.orders", f"{schema}.orders")


# -- standbys


@pytest.fixture(scope="module")
def standby(postgres: PostgresServer) -> Iterator[Standby]:
    with Standby(postgres) as server:
        yield server


@pytest.mark.slow
def test_a_standby_is_refused(standby: Standby, sql: SQL, schema: str) -> None:
    new_table(sql, schema, "orders")
    standby.catch_up()
    given: list[dict[str, Any]] = [
        {"table": f"{schema}.orders"},
        {"table": None, "query": f"SELECT * FROM {schema}.orders"},
        {"table": f"{schema}.orders", "poll_seconds": None},
    ]
    for each in given:
        with pytest.raises(ConfigurationError, match=r"the server is a standby.*set_lag"):
            reader(Server.at(standby.url), **each)


@pytest.mark.slow
def test_a_standby_with_a_lag(standby: Standby, sql: SQL, schema: str, postgres: PostgresServer) -> None:
    """The lag counts from the last transaction that the standby has repeated, however long ago that was."""
    sql.execute(f"CREATE TABLE {schema}.orders (at timestamptz DEFAULT clock_timestamp(), word text)")
    sql.execute(f"INSERT INTO {schema}.orders (word) VALUES ('first')")
    time.sleep(1.1)
    sql.execute(f"CREATE TABLE {schema}.more ()")
    standby.catch_up()
    source = reader(Server.at(standby.url), f"{schema}.orders", column="at", lag=1.0)
    position, found = read_on(source, source.initial())
    assert found == ["first"]
    with (
        psycopg.connect(standby.url, autocommit=True) as there,
        psycopg.connect(postgres.url) as slow,
    ):
        slow.execute(f"INSERT INTO {schema}.orders (word) VALUES ('late')")
        sql.execute(f"INSERT INTO {schema}.orders (word) VALUES ('early')")
        standby.catch_up()
        there.execute("SELECT pg_wal_replay_pause()")
        try:
            slow.commit()
            time.sleep(1.1)  # by the clock the early one is old enough
            position, found = read_on(source, position)
            assert found == []
        finally:
            there.execute("SELECT pg_wal_replay_resume()")
    sql.execute(f"CREATE TABLE {schema}.yet_more ()")
    standby.catch_up()
    assert read_on(source, position)[1] == ["late", "early"]


@pytest.mark.slow
def test_a_task_that_reaches_a_standby(standby: Standby, server: Server, sql: SQL, schema: str) -> None:
    """A URL may name several servers: the driver has asked one, and the task gets another, which lags behind."""
    sql.execute(f"CREATE TABLE {schema}.orders (n bigserial, at timestamptz DEFAULT clock_timestamp(), word text)")
    standby.catch_up()
    with psycopg.connect(standby.url, autocommit=True) as there:
        there.execute("SELECT pg_wal_replay_pause()")
        try:
            sql.execute(f"INSERT INTO {schema}.orders (word) VALUES ('x')")
            for column, lag in (("n", None), ("at", 0.0)):
                asked = reader(server, f"{schema}.orders", column=column, lag=lag)
                _, splits = asked.plan(asked.initial(), 10, 1)
                task = PostgresReader(Server.at(standby.url), asked._reading)
                with pytest.raises(InputError, match="is a standby, and it is not known to have all rows"):
                    list(task.read_batches(splits[0]))
        finally:
            there.execute("SELECT pg_wal_replay_resume()")


@pytest.mark.slow
def test_a_standby_that_is_promoted(sql: SQL, schema: str, postgres: PostgresServer) -> None:
    """From then on it shows its own writers, whom the lag need not cover."""
    sql.execute(f"CREATE TABLE {schema}.orders (at timestamptz DEFAULT clock_timestamp(), word text)")
    sql.execute(f"INSERT INTO {schema}.orders (word) VALUES ('first')")
    with Standby(postgres) as follower:
        sql.execute(f"INSERT INTO {schema}.orders (word) VALUES ('second')")
        follower.catch_up()
        source = reader(Server.at(follower.url), f"{schema}.orders", column="at", lag=0.0)
        position, found = read_on(source, source.initial())
        assert found == ["first", "second"]
        with psycopg.connect(follower.url, autocommit=True) as there:
            there.execute("SELECT pg_promote()")
            with psycopg.connect(follower.url) as slow:
                slow.execute(f"INSERT INTO {schema}.orders (word) VALUES ('late')")
                there.execute(f"INSERT INTO {schema}.orders (word) VALUES ('early')")
                position, found = read_on(source, position)
                assert found == []
            assert read_on(source, position)[1] == ["late", "early"]
        close_all()
