"""Prepared transactions on a real server: whoever dies, rows are there once or not at all, and it is known which."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from beadline.connectors.postgres import Bookkeeping, PreparedTransactions, Server, Table, bookkeeping
from beadline.connectors.transactions import Fate
from beadline.errors import ConfigurationError, TransactionUnknownError
from beadline.services import PostgresServer
from tests.connectors.postgres.conftest import PASSWORD
from tests.connectors.postgres.proxies import cutting

pytestmark = pytest.mark.postgres

ROWS = [(1, "one"), (2, None), (3, "drei\tnach\\zwei\n")]
SQL = psycopg.Connection[Any]


def id_of(table: str, number: int = 1, job: str = "0123abcd") -> str:
    """An id as the engine makes them; the table's name makes it this test's own."""
    return f"{table}-{job}-1-0-{number}-beef"


def seen(sql: SQL, table: str) -> list[Any]:
    return sql.execute(f"SELECT * FROM {table} ORDER BY n").fetchall()


def noted(sql: SQL, table: str) -> list[str]:
    rows = sql.execute("SELECT id FROM beadline_transactions WHERE starts_with(id, %s) ORDER BY id", [table])
    return [id for (id,) in rows]


def until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_rows_are_seen_when_the_transaction_is_committed(
    transactions: PreparedTransactions, sql: SQL, table: str
) -> None:
    handle = transactions.write(id_of(table), iter([ROWS[:2], ROWS[2:]]))
    assert seen(sql, table) == []
    assert transactions.list_open(table) == [id_of(table)]
    assert transactions.commit(handle) is Fate.COMMITTED
    assert seen(sql, table) == ROWS
    assert transactions.list_open(table) == []


def test_a_second_commit_changes_nothing(transactions: PreparedTransactions, sql: SQL, table: str) -> None:
    handle = transactions.write(id_of(table), iter([ROWS]))
    assert [transactions.commit(handle), transactions.commit(handle)] == [Fate.COMMITTED] * 2
    transactions.abort(handle)
    assert transactions.recover(handle) is Fate.COMMITTED
    assert seen(sql, table) == ROWS


def test_what_was_aborted_stays_so(transactions: PreparedTransactions, sql: SQL, table: str) -> None:
    handle = transactions.write(id_of(table), iter([ROWS]))
    transactions.abort(handle)
    transactions.abort(handle)
    assert transactions.commit(handle) is Fate.ABORTED
    assert seen(sql, table) == []
    assert noted(sql, table) == []


def test_what_an_administrator_rolled_back_is_known_to_be_lost(
    transactions: PreparedTransactions, sql: SQL, table: str
) -> None:
    handle = transactions.write(id_of(table), iter([ROWS]))
    sql.execute(f"ROLLBACK PREPARED '{id_of(table)}'")
    assert transactions.commit(handle) is Fate.ABORTED
    assert seen(sql, table) == []


def test_what_an_administrator_committed_is_known_to_be_there(
    transactions: PreparedTransactions, sql: SQL, table: str
) -> None:
    handle = transactions.write(id_of(table), iter([ROWS]))
    sql.execute(f"COMMIT PREPARED '{id_of(table)}'")
    assert transactions.commit(handle) is Fate.COMMITTED
    assert seen(sql, table) == ROWS


# -- writers that die

_CONTEXT = multiprocessing.get_context("forkserver")


def _write_and_die(transactions: PreparedTransactions, id: str, told: Any) -> None:
    told.send(transactions.write(id, iter([ROWS])))
    os.kill(os.getpid(), signal.SIGKILL)


def _die_while_writing(transactions: PreparedTransactions, id: str) -> None:
    def batches() -> Iterator[list[Any]]:
        for number in range(100):
            yield [(number, "x" * 1000)] * 100
        os.kill(os.getpid(), signal.SIGKILL)

    transactions.write(id, batches())


def test_another_process_commits_what_a_dead_one_wrote(
    transactions: PreparedTransactions, sql: SQL, table: str
) -> None:
    here, there = _CONTEXT.Pipe()
    writer = _CONTEXT.Process(target=_write_and_die, args=(transactions, id_of(table), there))
    writer.start()
    handle = here.recv()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    assert seen(sql, table) == []
    assert transactions.commit(handle) is Fate.COMMITTED
    assert seen(sql, table) == ROWS


def test_a_writer_that_dies_leaves_nothing(transactions: PreparedTransactions, sql: SQL, table: str) -> None:
    writer = _CONTEXT.Process(target=_die_while_writing, args=(transactions, id_of(table)))
    writer.start()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    until(lambda: transactions.list_open(table) == [])
    assert transactions.commit({"id": id_of(table), "at": 0, "keep_until": time.time() + 60}) is Fate.ABORTED
    assert seen(sql, table) == []


def test_a_writer_that_still_lives_is_ended(transactions: PreparedTransactions, sql: SQL, table: str) -> None:
    """Nobody waits for it any more: it must not prepare anything that nobody would ever finish."""
    go_on = threading.Event()
    problems = []

    def batches() -> Iterator[list[Any]]:
        yield ROWS
        go_on.wait(20)
        yield ROWS * 10_000

    def write() -> None:
        try:
            transactions.write(id_of(table), batches())
        except OSError as problem:
            problems.append(str(problem))

    writer = threading.Thread(target=write)
    writer.start()
    until(lambda: transactions.list_open(f"{table}-") == [id_of(table)])
    transactions.abort_open(id_of(table))
    assert transactions.list_open(table) == []
    go_on.set()
    writer.join()
    assert len(problems) == 1
    assert id_of(table) in problems[0]
    assert transactions.list_open(table) == []
    assert seen(sql, table) == []


def test_what_nobody_knows_is_found_and_ended(transactions: PreparedTransactions, sql: SQL, table: str) -> None:
    handles = [transactions.write(id_of(table, number), iter([ROWS])) for number in (1, 2)]
    assert transactions.list_open(f"{table}-0123abcd-") == [id_of(table, 1), id_of(table, 2)]
    transactions.abort_open(id_of(table, 1))
    transactions.abort_open(id_of(table, 1))
    assert [transactions.commit(handle) for handle in handles] == [Fate.ABORTED, Fate.COMMITTED]


def test_a_prefix_is_no_pattern(transactions: PreparedTransactions, table: str) -> None:
    odd = f"{table}-a_b-1-0-1-beef"
    transactions.write(odd, iter([ROWS]))
    transactions.write(f"{table}-axb-1-0-1-beef", iter([ROWS]))
    assert transactions.list_open(f"{table}-a_b") == [odd]
    assert transactions.list_open("%") == []


# -- trouble on the way


def test_an_answer_that_is_lost_at_the_commit(postgres: PostgresServer, sql: SQL, table: str) -> None:
    with cutting(postgres.port, b"COMMIT PREPARED") as proxy:
        by_proxy = Server.at(postgres.url.replace(str(postgres.port), str(proxy.port)))
        transactions = PreparedTransactions(by_proxy, Table(table, ("n", "word")))
        transactions.check()
        handle = transactions.write(id_of(table), iter([ROWS]))
        assert transactions.commit(handle) is Fate.COMMITTED
        assert proxy.cuts == 1
    assert seen(sql, table) == ROWS


def test_an_answer_that_is_lost_when_it_is_prepared(postgres: PostgresServer, sql: SQL, table: str) -> None:
    """Nobody learns that it was: the writer itself rolls it back."""
    with cutting(postgres.port, b"PREPARE TRANSACTION") as proxy:
        by_proxy = Server.at(postgres.url.replace(str(postgres.port), str(proxy.port)))
        transactions = PreparedTransactions(by_proxy, Table(table, ("n", "word")))
        transactions.check()
        with pytest.raises(OSError, match=f"writing rows to {table}"):
            transactions.write(id_of(table), iter([ROWS]))
        assert proxy.cuts == 1
        assert transactions.list_open(table) == []
    assert seen(sql, table) == []


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_server_that_goes_away_meanwhile(
    how: str, transactions: PreparedTransactions, postgres: PostgresServer, table: str
) -> None:
    handle = transactions.write(id_of(table), iter([ROWS]))
    if how == "kill":
        postgres.kill()
    else:
        postgres.stop()
    back = threading.Timer(1.0, postgres.start)
    back.start()
    try:
        assert transactions.commit(handle) is Fate.COMMITTED
    finally:
        back.join()
    with psycopg.connect(postgres.url, autocommit=True) as sql:
        assert seen(sql, table) == ROWS


def test_a_server_that_stays_away(table: str, server: Server) -> None:
    """It is an OSError, which the engine takes for something that may pass."""
    away = Server((("host", "127.0.0.1"), ("port", "1")), patience=0.3)
    transactions = PreparedTransactions(away, Table(table, ("n", "word")))
    with pytest.raises(OSError, match=r"committing the transaction .*127\.0\.0\.1:1"):
        transactions.commit({"id": id_of(table), "at": 0.0, "keep_until": 0.0})
    with pytest.raises(OSError, match=r"127\.0\.0\.1:1"):
        transactions.check()


def test_rows_that_the_table_does_not_take(transactions: PreparedTransactions, sql: SQL, table: str) -> None:
    sql.execute(f"ALTER TABLE {table} ADD UNIQUE (n)")
    with pytest.raises(OSError, match=r"Key \(n\)=\(1\) already exists"):
        transactions.write(id_of(table), iter([ROWS, ROWS]))
    assert transactions.list_open(table) == []
    transactions.commit(transactions.write(id_of(table, 2), iter([ROWS])))
    assert seen(sql, table) == ROWS


@pytest.mark.parametrize("id", ["x" * 201, "it's", "a b", "*/"])
def test_ids_that_postgresql_would_not_take(id: str, transactions: PreparedTransactions) -> None:
    with pytest.raises(ConfigurationError, match="set_transactional_id_prefix"):
        transactions.write(id, iter([ROWS]))


# -- bookkeeping


def test_notes_are_removed_when_they_have_expired(
    server: Server, sql: SQL, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bookkeeping, "_CLEAN_EVERY", 0.0)
    transactions = PreparedTransactions(server, Table(table, ("n", "word")), Bookkeeping(keep_seconds=3600))
    transactions.check()
    mine, others = id_of(table), id_of(table, job="ffffffff")
    transactions.commit(transactions.write(mine, iter([ROWS])))
    transactions.commit(transactions.write(others, iter([ROWS])))
    assert noted(sql, table) == [mine, others]
    sql.execute("UPDATE beadline_transactions SET keep_until = keep_until - interval '3 hours'")
    transactions.commit(transactions.write(id_of(table, 2), iter([ROWS])))
    assert noted(sql, table) == [id_of(table, 2), others], "another job may be away, and come back"


def test_after_that_nobody_can_tell(transactions: PreparedTransactions, sql: SQL, table: str) -> None:
    """The note and the transaction are gone: the user has to look."""
    handle = transactions.write(id_of(table), iter([ROWS]))
    transactions.commit(handle)
    expired = {**handle, "keep_until": time.time() - 1}
    assert transactions.commit(expired) is Fate.COMMITTED, "as long as the note is there"
    sql.execute("DELETE FROM beadline_transactions WHERE id = %s", [id_of(table)])
    with pytest.raises(TransactionUnknownError, match=r"INSERT INTO beadline_transactions") as caught:
        transactions.commit(expired)
    assert id_of(table) in str(caught.value)
    sql.execute("INSERT INTO beadline_transactions (id) VALUES (%s)", [id_of(table)])
    assert transactions.commit(expired) is Fate.COMMITTED


def test_the_notes_may_be_in_a_schema_of_their_own(server: Server, sql: SQL, table: str) -> None:
    sql.execute(f'CREATE SCHEMA "Notes of {table}"')
    made = PreparedTransactions(server, Table(table, ("n", "word")), Bookkeeping(f"Notes of {table}"))
    made.check()
    made.commit(made.write(id_of(table), iter([ROWS])))
    assert sql.execute(f'SELECT id FROM "Notes of {table}".beadline_transactions').fetchall() == [(id_of(table),)]
    sql.execute(f'DROP SCHEMA "Notes of {table}" CASCADE')


# -- what is checked before the job starts


def test_a_server_without_prepared_transactions(name: str) -> None:
    with PostgresServer({"max_prepared_transactions": 0}) as without:
        made = PreparedTransactions(Server.at(without.url), Table(name, ("n",)))
        with pytest.raises(ConfigurationError, match="ALTER SYSTEM SET max_prepared_transactions = 100"):
            made.check()


def test_a_table_that_does_not_exist(server: Server, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f'relation "{name}" does not exist .*Create it'):
        PreparedTransactions(server, Table(name, ("n",))).check()
    with pytest.raises(ConfigurationError, match="nowhere"):
        PreparedTransactions(server, Table(f"nowhere.{name}", ("n",))).check()


def test_a_database_that_does_not_exist(postgres: PostgresServer, name: str) -> None:
    """Waiting would not help: it is said at once, not after half a minute."""
    made = PreparedTransactions(Server.at(postgres.url.replace("/postgres", "/nowhere")), Table(name, ("n",)))
    with pytest.raises(ConfigurationError, match='"nowhere" does not exist'):
        made.check()


def test_a_column_that_does_not_exist(server: Server, table: str) -> None:
    with pytest.raises(ConfigurationError, match=r'column "x" of relation .* does not exist.*set_columns'):
        PreparedTransactions(server, Table(table, ("n", "x"))).check()


def test_a_user_who_may_only_read(postgres: PostgresServer, sql: SQL, table: str, guest: str) -> None:
    sql.execute(f"GRANT SELECT ON {table} TO {guest}")
    made = PreparedTransactions(Server.at(postgres.url, guest, PASSWORD), Table(table, ("n", "word")))
    with pytest.raises(ConfigurationError, match=f"permission denied for table {table}.*GRANT INSERT ON {table}"):
        made.check()


def test_a_user_who_may_not_keep_notes(postgres: PostgresServer, sql: SQL, table: str, guest: str) -> None:
    sql.execute(f"GRANT INSERT ON {table} TO {guest}; CREATE SCHEMA empty_{table}")
    sql.execute(f"GRANT USAGE ON SCHEMA empty_{table} TO {guest}")
    server = Server.at(postgres.url, guest, PASSWORD)
    made = PreparedTransactions(server, Table(table, ("n", "word")), Bookkeeping(f"empty_{table}"))
    with pytest.raises(ConfigurationError, match=rf"CREATE TABLE IF NOT EXISTS empty_{table}\.beadline_transactions"):
        made.check()
    sql.execute(f"CREATE TABLE empty_{table}.beadline_transactions (id text PRIMARY KEY)")
    with pytest.raises(ConfigurationError, match="id, number, at, keep_until"):
        made.check()
    sql.execute(f"DROP SCHEMA empty_{table} CASCADE")


def test_a_user_with_few_rights_is_enough(postgres: PostgresServer, sql: SQL, table: str, guest: str) -> None:
    PreparedTransactions(Server.at(postgres.url), Table(table, ("n", "word"))).check()
    sql.execute(f"GRANT INSERT ON {table} TO {guest}")
    sql.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON beadline_transactions TO {guest}")
    made = PreparedTransactions(Server.at(postgres.url, guest, PASSWORD), Table(table, ("n", "word")))
    made.check()
    assert made.commit(made.write(id_of(table), iter([ROWS]))) is Fate.COMMITTED
    assert seen(sql, table) == ROWS


# -- passwords


def test_a_wrong_password_is_said_and_not_shown(
    postgres: PostgresServer, guest: str, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = PASSWORD + "-not"
    server = Server.at(postgres.url, guest, wrong)
    made = PreparedTransactions(server, Table(table, ("n", "word")))
    with pytest.raises(ConfigurationError, match="password authentication failed") as caught:
        made.check()
    shown = [repr(server), repr(made), str(server), str(caught.value), repr(caught.value), caplog.text]
    assert caught.value.__cause__ is None
    assert not any(wrong in text or PASSWORD in text for text in shown)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:Geh3im@[host/db",
        "postgresql://me:Geh3im@host/db?nonsense=1",
        "password=Geh3im host='unfinished",
        "Geh3im",
    ],
)
def test_a_url_that_cannot_be_read_is_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Server.at(url)
    assert "Geh3im" not in str(caught.value)
    assert caught.value.__suppress_context__
