"""Rows that replace those with the same key: the newest one stays, however often and late they are written."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from beadline.connectors.postgres import AppendLog, Server, Table, UpsertLog
from beadline.connectors.postgres import log as module
from beadline.connectors.transactions import Entry
from beadline.errors import ConfigurationError

pytestmark = pytest.mark.postgres

SQL = psycopg.Connection[Any]


@pytest.fixture
def log(server: Server, sql: SQL, table: str) -> UpsertLog:
    sql.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (n)")
    made = UpsertLog(server, Table(table, ("n", "word"), ("n",)))
    made.check()
    return made


def entry(log: UpsertLog | AppendLog, number: int, subtask: int = 0) -> Entry:
    return Entry(log.table.name, subtask, number)


def seen(sql: SQL, table: str) -> list[Any]:
    return sql.execute(f"SELECT n, word FROM {table} ORDER BY n, word").fetchall()


def test_the_last_row_of_a_key_stays(log: UpsertLog, sql: SQL, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS", 2)
    log.append(entry(log, 1), iter([[(1, "a"), (2, "b"), (1, "c")], [(2, "d"), (3, None)], [(1, "e"), (1, "f")]]))
    assert seen(sql, table) == [(1, "f"), (2, "d"), (3, None)]
    log.append(entry(log, 2), iter([[(3, "g")], [(4, "h")]]))
    assert seen(sql, table) == [(1, "f"), (2, "d"), (3, "g"), (4, "h")]


def test_an_entry_that_comes_again_changes_nothing(log: UpsertLog, sql: SQL, table: str) -> None:
    """Not even if others have changed the rows since, or a driver that was taken for dead writes what is older."""
    log.append(entry(log, 1), iter([[(1, "old")]]))
    log.append(entry(log, 2), iter([[(1, "new")]]))
    log.append(entry(log, 1), iter([[(1, "old")]]))
    assert seen(sql, table) == [(1, "new")]
    sql.execute(f"UPDATE {table} SET word = 'changed'")
    log.append(entry(log, 2), iter([[(1, "new")]]))
    assert seen(sql, table) == [(1, "changed")]
    log.append(entry(log, 1, subtask=1), iter([[(2, "another subtask")]]))
    assert seen(sql, table) == [(1, "changed"), (2, "another subtask")]


def test_rows_that_are_refused_leave_nothing(log: UpsertLog, sql: SQL, table: str) -> None:
    sql.execute(f"ALTER TABLE {table} ADD CHECK (word <> 'bad')")
    with pytest.raises(OSError, match=f"writing rows to {table} .*violates check constraint"):
        log.append(entry(log, 1), iter([[(1, "good"), (2, "bad")]]))
    assert seen(sql, table) == []
    log.append(entry(log, 1), iter([[(1, "good"), (2, "better")]]))
    assert seen(sql, table) == [(1, "good"), (2, "better")]


def test_the_server_says_which_keys_are_equal(server: Server, sql: SQL, name: str) -> None:
    """In this type, blanks at the end don't count."""
    sql.execute(f'CREATE TABLE {name} ("Key" char(3) PRIMARY KEY, n int)')
    log = UpsertLog(server, Table(name, ("Key", "n"), ("Key",)))
    log.check()
    log.append(entry(log, 1), iter([[("a", 1), ("a ", 2), ("b", 3)]]))
    assert sql.execute(f'SELECT n FROM {name} ORDER BY "Key"').fetchall() == [(2,), (3,)]
    sql.execute(f"DROP TABLE {name}")


def test_a_table_of_nothing_but_keys(server: Server, sql: SQL, table: str) -> None:
    sql.execute(f"CREATE UNIQUE INDEX ON {table} (n, word)")
    log = UpsertLog(server, Table(table, ("n", "word"), ("word", "n")))
    log.check()
    log.append(entry(log, 1), iter([[(1, "a"), (1, "a"), (1, "b")]]))
    log.append(entry(log, 2), iter([[(1, "a")]]))
    assert seen(sql, table) == [(1, "a"), (1, "b")]


def test_keys_need_an_index(server: Server, table: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"CREATE UNIQUE INDEX ON {table} \(n\)"):
        UpsertLog(server, Table(table, ("n", "word"), ("n",))).check()


def test_keys_are_among_the_columns() -> None:
    with pytest.raises(ConfigurationError, match="'id' is not among the columns"):
        Table("orders", ("n",), ("id",))


def test_rows_that_are_only_added(server: Server, sql: SQL, table: str) -> None:
    log = AppendLog(server, Table(table, ("n", "word")))
    log.check()
    log.append(entry(log, 1), iter([[(1, "a")], [(1, "a"), (2, "b")]]))
    assert seen(sql, table) == [(1, "a"), (1, "a"), (2, "b")]
    assert not log.exactly_once


def test_values_of_many_types(server: Server, sql: SQL, name: str) -> None:
    """What psycopg can show as text, PostgreSQL reads in the column's type."""
    import datetime as dt
    from decimal import Decimal
    from uuid import UUID

    kinds = "a smallint, b double precision, c boolean, d bytea, e timestamptz, f date, g numeric, h uuid, i int[], "
    sql.execute(f"CREATE TABLE {name} ({kinds} j jsonb, k time, l interval)")
    row = (
        7,
        float("inf"),
        True,
        b"\x00\xff",
        dt.datetime(2024, 5, 6, 7, 8, 9, 123456, dt.timezone.utc),
        dt.date(2024, 2, 29),
        Decimal("1.50"),
        UUID(int=5),
        [1, None, 3],
        {"a": [1, "ü"]},
        dt.time(1, 2, 3),
        dt.timedelta(days=2, seconds=5),
    )
    log = AppendLog(server, Table(name, tuple("abcdefghijkl")))
    log.check()
    log.append(entry(log, 1), iter([[row, (None,) * 12]]))
    assert sql.execute(f"SELECT * FROM {name} ORDER BY a").fetchall() == [row, (None,) * 12]
    sql.execute(f"DROP TABLE {name}")
