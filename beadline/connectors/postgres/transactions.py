"""Transactions that PostgreSQL keeps prepared until any process commits them."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from beadline.connectors.postgres.bookkeeping import Bookkeeping
from beadline.connectors.postgres.server import Server
from beadline.connectors.postgres.table import Table
from beadline.connectors.transactions import Fate, Transactions
from beadline.errors import ConfigurationError

_LONGEST_ID = 200
_SAFE_ID = re.compile(r"[\w.:-]+", re.ASCII)
# A row with the same key in a transaction that nobody finishes would hold a writer up for ever.
_LOCK_SECONDS = 60
_GONE, _BUSY = "42704", "55000"
_PAUSE = 0.1
# Sessions are found by what they do: each statement begins with the id of its transaction.
_SESSIONS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"


@dataclass(frozen=True)
class PreparedTransactions(Transactions):
    """Rows are copied into a transaction that ends with ``PREPARE TRANSACTION``. From then on it is durable and belongs
    to no session: ``COMMIT PREPARED`` shows it, whoever says so.

    A handle is ``{"id": …, "at": …, "keep_until": …}``, see :class:`Bookkeeping`.
    """

    server: Server
    table: Table
    bookkeeping: Bookkeeping = field(default_factory=Bookkeeping)

    def check(self) -> None:
        allowed = self.server.retrying(
            "asking for max_prepared_transactions",
            lambda connection: int(connection.execute("SHOW max_prepared_transactions").fetchone()[0]),
        )
        if not allowed:
            raise ConfigurationError(
                f"{self.server.label} keeps no prepared transactions, which exactly-once needs: "
                "max_prepared_transactions is 0. Let an administrator set it to a few for each sink subtask "
                "(ALTER SYSTEM SET max_prepared_transactions = 100) and restart the server; or set keys with "
                "set_keys(), so that writing a row twice does no harm; or choose DeliveryGuarantee.AT_LEAST_ONCE"
            )
        self.table.check(self.server)
        self.bookkeeping.check(self.server)

    # -- writing

    def write(self, id: str, batches: Iterator[list[Any]]) -> Any:
        """Write rows in one transaction.

        1. begin, and note the id, which counts if the transaction does
        2. copy the rows
        3. prepare: now it is durable
        """
        _check_id(id)
        what = f"writing rows to {self.table.name} in the transaction {id}"
        try:
            with self.server.explained(what), self.server.session() as connection:
                connection.execute(f"/* {id} */ BEGIN")
                connection.execute(f"/* {id} */ SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
                handle = self.bookkeeping.note(connection, id)
                with connection.cursor() as cursor, cursor.copy(_marked(id, self.table.copy_into())) as copy:
                    write_row = copy.write_row
                    for rows in batches:
                        for row in rows:
                            write_row(row)
                connection.execute(f"/* {id} */ PREPARE TRANSACTION '{id}'")
        except BaseException:
            # The answer to the last statement may be what was lost.
            with contextlib.suppress(Exception):
                self._end_once(id, "ROLLBACK PREPARED")
            raise
        return handle

    # -- finishing

    def commit(self, handle: Any) -> Fate:
        id = handle["id"]

        def act(connection: Any) -> Fate | None:
            if self._end(connection, id, "COMMIT PREPARED"):
                with contextlib.suppress(Exception):
                    self.bookkeeping.clean(connection, id)
                return Fate.COMMITTED
            return self.bookkeeping.fate(connection, handle)

        fate = self.server.retrying(f"committing the transaction {id}", act)
        if fate is None:
            raise self.bookkeeping.unknown(handle, self.server.label)
        return fate

    def abort(self, handle: Any) -> None:
        self._roll_back(handle["id"])

    def _roll_back(self, id: str) -> None:
        self.server.retrying(
            f"rolling back the transaction {id}", lambda connection: self._end(connection, id, "ROLLBACK PREPARED")
        )

    def _end_once(self, id: str, how: str) -> None:
        with self.server.session() as connection:
            self._end(connection, id, how)

    def _end(self, connection: Any, id: str, how: str) -> bool:
        """End a prepared transaction; False if there is none. While another session ends it, wait: it may fail."""
        import psycopg

        deadline = time.monotonic() + self.server.patience
        while True:
            try:
                connection.execute(f"{how} '{_check_id(id)}'")
                return True
            except psycopg.Error as error:
                if error.sqlstate == _GONE:
                    return False
                if error.sqlstate != _BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)

    # -- what was left

    def list_open(self, prefix: str) -> list[str]:
        """Prepared transactions of this database, and those that sessions are still writing."""

        def act(connection: Any) -> list[str]:
            prepared = connection.execute(
                "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)",
                [prefix],
            ).fetchall()
            running = connection.execute(
                f"SELECT substring(query FROM '^/\\* ([^ ]+) \\*/') {_SESSIONS} AND starts_with(query, %s)",
                [f"/* {prefix}"],
            ).fetchall()
            return sorted({id for (id,) in prepared + running if id})

        return self.server.retrying("listing prepared transactions", act)

    def abort_open(self, id: str) -> None:
        """End the session that writes it, if one does, and what it may have prepared meanwhile."""

        def act(connection: Any) -> None:
            mark = f"/* {id} */"
            connection.execute(f"SELECT pg_terminate_backend(pid, 5000) {_SESSIONS} AND starts_with(query, %s)", [mark])
            self._end(connection, id, "ROLLBACK PREPARED")

        self.server.retrying(f"ending the transaction {id}", act)


def _check_id(id: str) -> str:
    if len(id) > _LONGEST_ID or not _SAFE_ID.fullmatch(id):
        raise ConfigurationError(
            f"the transaction id {id!r} has {len(id)} characters; PostgreSQL takes {_LONGEST_ID}, and this sink "
            "letters, digits, '_', '.', ':' and '-'. Choose another prefix with set_transactional_id_prefix()"
        )
    return id


def _marked(id: str, statement: Any) -> Any:
    from psycopg import sql

    return sql.SQL(f"/* {id} */ ") + statement
