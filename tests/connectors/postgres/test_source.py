"""A table read by a growing column: each row once, the same ones when a range is read again."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import time
from typing import Any

import psycopg
import pytest

from beadline.common import Row
from beadline.connectors.postgres import PostgresReader, Reading, Server
from beadline.errors import ConfigurationError
from beadline.services import PostgresServer

pytestmark = pytest.mark.postgres

SQL = psycopg.Connection[Any]


def reader(server: Server, table: str | None, column: str = "n", **more: Any) -> PostgresReader:
    made = PostgresReader(server, Reading(table, more.pop("query", None), column, **more))
    made.prepare(batch=False)
    return made


def read(source: PostgresReader, splits: list[Any]) -> list[Any]:
    return [row for split in splits for rows in source.read_batches(split) for row in rows]


def drained(source: PostgresReader, rows: int = 10, parallelism: int = 2) -> list[Any]:
    """All that there is, range by range; each is read twice, the second time as a task on another machine would."""
    found, position = [], json.loads(json.dumps(source.initial()))
    for _ in range(1000):
        end, splits = source.plan(position, rows, parallelism)
        once = read(source, splits)
        assert read(pickle.loads(pickle.dumps(source)), pickle.loads(pickle.dumps(splits))) == once
        assert len(splits) <= parallelism
        found += once
        if source.finished(end):
            return found
        if end == position:
            time.sleep(source.poll_interval())
        position = json.loads(json.dumps(end))
    raise AssertionError("it does not end")


def fill(sql: SQL, table: str, first: int, last: int) -> None:
    sql.execute(f"INSERT INTO {table} SELECT i, 'word ' || i FROM generate_series({first}, {last}) AS i")


def test_what_is_there_when_the_job_starts(server: Server, sql: SQL, table: str) -> None:
    fill(sql, table, 1, 95)
    sql.execute(f"INSERT INTO {table} VALUES (NULL, 'has no place')")
    source = reader(server, table)
    position = source.initial()
    fill(sql, table, 96, 120)
    assert position == {"after": None, "end": "95"}
    end, splits = source.plan(position, 10, 2)
    assert splits == [(None, "5"), ("5", "10")]
    assert end == {"after": "10", "end": "95", "relation": end["relation"]}
    assert read(source, splits[:1])[:2] == [Row(n=1, word="word 1"), Row(n=2, word="word 2")]
    sql.execute(f"DELETE FROM {table} WHERE n > 95")
    assert [row.n for row in drained(reader(server, table))] == list(range(1, 96))


def test_an_empty_table(server: Server, table: str) -> None:
    source = reader(server, table)
    assert source.finished(source.initial())


def test_rows_that_are_deleted_before_they_are_read(server: Server, sql: SQL, table: str) -> None:
    fill(sql, table, 1, 20)
    source = reader(server, table)
    position = source.initial()
    sql.execute(f"DELETE FROM {table} WHERE n > 15")
    end, splits = source.plan(position, 100, 1)
    assert len(read(source, splits)) == 15
    end, splits = source.plan(end, 100, 1)
    assert splits == []
    assert source.finished(end)


def test_new_rows_are_read_as_they_come(server: Server, sql: SQL, table: str) -> None:
    source = reader(server, table, poll_seconds=0.1)
    assert not source.bounded
    position = source.initial()
    assert source.plan(position, 10, 2) == (position, [])
    seen: list[Any] = []
    for first in (1, 8, 30):
        fill(sql, table, first, first + 4)
        source._looked_at = float("-inf")
        position, splits = source.plan(position, 10, 2)
        seen += [row.n for row in read(source, splits)]
        assert not source.finished(position)
    assert seen == [*range(1, 6), *range(8, 13), *range(30, 35)]


@pytest.mark.parametrize("kind", ["table", "query"])
def test_a_transaction_that_commits_late_is_waited_for(
    kind: str, server: Server, sql: SQL, name: str, postgres: PostgresServer
) -> None:
    """It drew a lower number than one that has committed already."""
    sql.execute(f"CREATE TABLE {name} (n bigserial PRIMARY KEY, word text)")
    given: dict[str, Any] = {"query": f"SELECT * FROM {name}"} if kind == "query" else {}
    source = reader(server, None if given else name, poll_seconds=0.05, **given)
    position = source.initial()
    with psycopg.connect(postgres.url) as slow:
        slow.execute(f"INSERT INTO {name} (word) VALUES ('slow')")
        sql.execute(f"INSERT INTO {name} (word) VALUES ('quick')")
        for _ in range(3):
            source._looked_at = float("-inf")
            assert source.plan(position, 10, 1) == (position, [])
        slow.commit()
        # Another one, which has begun to write only now, need not be waited for.
        slow.execute(f"INSERT INTO {name} (word) VALUES ('later')")
        source._looked_at = float("-inf")
        position, splits = source.plan(position, 10, 1)
        assert [row.word for row in read(source, splits)] == ["slow", "quick"]
        slow.rollback()
    sql.execute(f"DROP TABLE {name}")


def test_a_prepared_transaction_is_waited_for(server: Server, sql: SQL, table: str, postgres: PostgresServer) -> None:
    fill(sql, table, 2, 2)
    source = reader(server, table)
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute(f"BEGIN; INSERT INTO {table} VALUES (1, 'slow'); PREPARE TRANSACTION '{table}'")
    position = source.initial()
    assert source.plan(position, 10, 1) == (position, [])
    sql.execute(f"COMMIT PREPARED '{table}'")
    assert [row.n for row in drained(source)] == [1, 2]


def test_times_with_a_lag(server: Server, sql: SQL, name: str) -> None:
    sql.execute(f"CREATE TABLE {name} (at timestamptz, n int)")
    sql.execute(f"INSERT INTO {name} SELECT now() - make_interval(mins => i), i FROM generate_series(1, 9) AS i")
    assert [row.n for row in drained(reader(server, name, "at", lag=270.0))] == [9, 8, 7, 6, 5]
    everything = drained(reader(server, name, "at"), rows=3)
    assert [row.n for row in everything] == list(range(9, 0, -1))
    late = str(everything[5].at)
    assert [row.n for row in drained(reader(server, name, "at", start=late))] == [3, 2, 1]
    sql.execute(f"DROP TABLE {name}")


def test_rows_with_equal_values_stay_together_and_in_order(server: Server, sql: SQL, table: str) -> None:
    sql.execute(f"INSERT INTO {table} SELECT i / 10, 'word ' || i FROM generate_series(0, 99) AS i ORDER BY random()")
    first = drained(reader(server, table), rows=7, parallelism=3)
    sql.execute(f"CREATE TABLE {table}_other AS TABLE {table} ORDER BY random()")
    sql.execute(f"TRUNCATE {table}")
    sql.execute(f"INSERT INTO {table} SELECT * FROM {table}_other")
    sql.execute(f"DROP TABLE {table}_other")
    assert drained(reader(server, table), rows=7, parallelism=3) == first
    assert sorted(int(row.word[5:]) for row in first) == list(range(100))


def test_a_query(server: Server, sql: SQL, table: str) -> None:
    fill(sql, table, 1, 30)
    query = f"SELECT n * 2 AS twice, word AS \"the word\" FROM {table} WHERE word LIKE '%2%' AND n % 2 = 0;"
    found = drained(reader(server, None, "twice", query=query))
    assert [row["twice"] for row in found] == [2 * n for n in range(1, 31) if "2" in str(n) and n % 2 == 0]
    assert found[0]["the word"] == "word 2"


def test_a_partitioned_table(server: Server, sql: SQL, name: str, postgres: PostgresServer) -> None:
    sql.execute(f"CREATE TABLE {name} (n bigint, word text) PARTITION BY RANGE (n)")
    sql.execute(f"CREATE TABLE {name}_1 PARTITION OF {name} FOR VALUES FROM (0) TO (10)")
    sql.execute(f"CREATE TABLE {name}_2 PARTITION OF {name} FOR VALUES FROM (10) TO (20)")
    fill(sql, name, 5, 15)
    source = reader(server, name)
    position = source.initial()
    with psycopg.connect(postgres.url) as slow:
        slow.execute(f"INSERT INTO {name}_1 VALUES (1, 'straight into a part')")
        assert source.plan(position, 100, 1) == (position, [])
    assert [row.n for row in drained(source)] == [1, *range(5, 16)]
    sql.execute(f"DROP TABLE {name}")


def test_where_to_begin(server: Server, sql: SQL, table: str) -> None:
    fill(sql, table, 1, 10)
    assert [row.n for row in drained(reader(server, table, start="7"))] == [8, 9, 10]
    source = reader(server, table, start="99")
    assert source.finished(source.initial())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"column": "x"}, "does not exist"),
        ({"table": "nobody_made_this"}, "does not exist"),
        ({"start": "Tuesday"}, "invalid input syntax"),
        ({"lag": 5.0}, "set_lag"),
        ({"table": None, "query": "SELEKT 1"}, "syntax error"),
    ],
)
def test_what_cannot_be_read_is_said_at_once(given: dict[str, Any], message: str, server: Server, table: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        reader(server, **{"table": table, **given})


def test_a_table_or_a_query(server: Server) -> None:
    for both in (Reading(None, None, "n"), Reading("t", "SELECT 1 AS n", "n")):
        with pytest.raises(ConfigurationError, match="set_table"):
            PostgresReader(server, both)


def test_batch_mode_ends_what_would_go_on(server: Server, sql: SQL, table: str) -> None:
    fill(sql, table, 1, 3)
    source = PostgresReader(server, Reading(table, None, "n", poll_seconds=1.0))
    source.prepare(batch=True)
    assert source.bounded
    assert [row.n for row in drained(source)] == [1, 2, 3]


def test_values_come_as_pythons(server: Server, sql: SQL, name: str) -> None:
    sql.execute(f"CREATE TABLE {name} (at date, n numeric, j jsonb, b bytea)")
    sql.execute(f"INSERT INTO {name} VALUES ('2024-02-29', 1.5, '{{\"a\": 1}}', '\\x00ff')")
    (row,) = drained(reader(server, name, "at"))
    assert row == Row(at=dt.date(2024, 2, 29), n=row.n, j={"a": 1}, b=b"\x00\xff")
    assert str(row.n) == "1.5"
    sql.execute(f"DROP TABLE {name}")
