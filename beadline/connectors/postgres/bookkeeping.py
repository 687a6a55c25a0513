"""What the database itself remembers of a sink, in a small table next to the data.

PostgreSQL forgets the id of a prepared transaction when it is committed and when it is rolled back. So each
transaction puts its own id into this table: the row is there if and only if the rest of it is. An upsert sink notes
here how far each of its subtasks has come.

A row is needed as long as somebody may ask, which is when the job goes back to a checkpoint that names the transaction.
Each row says until when it is kept, and so does the handle in the checkpoint: if both the row and the transaction are
gone after that time, nobody can tell what became of it. Only the job that wrote a row removes it. A job that is away
for a year finds its rows when it comes back.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from beadline.connectors.postgres.server import Server, said
from beadline.connectors.transactions import Fate
from beadline.errors import ConfigurationError, TransactionUnknownError

TABLE = "beadline_transactions"
COLUMNS = ("id", "number", "at", "keep_until")
KEEP_SECONDS = 24 * 3600.0
# Rows stay this much longer than the handles believe.
_MARGIN = "1 hour"
_CLEAN_EVERY = 600.0

_cleaned: dict[str, float] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Bookkeeping:
    """The table, in some schema.

    :ivar schema: None for the first one of the user's search path
    :ivar keep_seconds: how long the job may want to go back
    """

    schema: str | None = None
    keep_seconds: float = KEEP_SECONDS

    @property
    def name(self) -> str:
        return TABLE if self.schema is None else f"{self.schema}.{TABLE}"

    def _statement(self, text: str) -> Any:
        from psycopg import sql

        parts = (TABLE,) if self.schema is None else (self.schema, TABLE)
        return sql.SQL(text).format(sql.Identifier(*parts))

    # -- before the job starts

    def check(self, server: Server) -> None:
        """Make the table unless it is there, and see whether this user can work with it."""
        import psycopg

        problem: Any = None

        def ready(connection: Any) -> bool:
            nonlocal problem
            try:
                if self._columns(connection) is None:
                    connection.execute(self._statement(_CREATE))
                connection.execute(self._statement(_TRY))
                return True
            except psycopg.errors.UniqueViolation:  # another job makes it at the same time
                return False
            except psycopg.Error as error:
                if not str(error.sqlstate).startswith(("42", "3F", "25006")):
                    raise
                problem = error
                return True

        while not server.retrying(f"looking at the table {self.name}", ready):
            time.sleep(0.05)
        if problem is not None:
            raise ConfigurationError(
                f"the sink can't use its table {self.name} at {server.label}: {server.hidden(said(problem))}. It needs "
                f"the columns {', '.join(COLUMNS)}, and SELECT, INSERT, UPDATE and DELETE. Let an administrator run: "
                f"{_CREATE.format(self.name)}; GRANT SELECT, INSERT, UPDATE, DELETE ON {self.name} TO …; or name "
                "another schema with set_bookkeeping_schema()"
            )

    def _columns(self, connection: Any) -> Any:
        from psycopg import sql

        parts = (TABLE,) if self.schema is None else (self.schema, TABLE)
        name = sql.Identifier(*parts).as_string(connection)
        return connection.execute("SELECT to_regclass(%s)", [name]).fetchone()[0]

    # -- transactions

    def note(self, connection: Any, id: str) -> dict[str, Any]:
        """Note that the running transaction is committed, which is true once it is. Gives its handle: when it was, and
        until when that is known, in seconds since 1970 by the server's clock."""
        statement = self._statement(
            f"/* {id} */ INSERT INTO {{}} (id, keep_until) VALUES (%s, now() + make_interval(secs => %s)) "
            "RETURNING extract(epoch FROM at)::float8, extract(epoch FROM keep_until)::float8"
        )
        at, until = connection.execute(statement, [id, self.keep_seconds]).fetchone()
        return {"id": id, "at": at, "keep_until": until}

    def fate(self, connection: Any, handle: dict[str, Any]) -> Fate | None:
        """What has become of a transaction that is neither open nor prepared; None if nobody can tell any more."""
        found = connection.execute(self._statement("SELECT 1 FROM {} WHERE id = %s"), [handle["id"]]).fetchone()
        if found is not None:
            return Fate.COMMITTED
        now = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()[0]
        return Fate.ABORTED if now < handle["keep_until"] else None

    def unknown(self, handle: dict[str, Any], where: str) -> TransactionUnknownError:
        """What is raised when nobody can tell."""
        return TransactionUnknownError(
            f"nobody can tell whether the transaction {handle['id']} was committed, which was written "
            f"{_days(time.time() - handle['at'])} days ago: {where} has it no more, and the note of it in {self.name}, "
            f"which was kept for {_days(handle['keep_until'] - handle['at'])} days, is gone. Look whether its rows are "
            f"there. If so, say it with INSERT INTO {self.name} (id) VALUES ('{handle['id']}'), and resume the job"
        )

    # -- entries of a log

    def advance(self, connection: Any, id: str, number: int) -> bool:
        """Note in the running transaction that an entry was written, unless it or a later one was before.

        Of two writers of the same id one waits here for the other: a driver that was taken for dead does not write
        old values over new ones.
        """
        statement = self._statement(
            "INSERT INTO {} AS known (id, number) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE "
            "SET number = EXCLUDED.number, at = now() WHERE known.number < EXCLUDED.number RETURNING 1"
        )
        return connection.execute(statement, [id, number]).fetchone() is not None

    # -- later

    def clean(self, connection: Any, id: str) -> None:
        """Now and then, remove what the job that wrote a transaction needs no more."""
        job = id.rsplit("-", 4)[0]
        with _lock:
            last = _cleaned.get(job)
            if last is not None and time.monotonic() - last < _CLEAN_EVERY:
                return
            _cleaned[job] = time.monotonic()
        statement = self._statement(
            f"DELETE FROM {{}} WHERE starts_with(id, %s) AND keep_until < now() - interval '{_MARGIN}'"
        )
        connection.execute(statement, [f"{job}-"])


_CREATE = (
    "CREATE TABLE IF NOT EXISTS {} (id text PRIMARY KEY, number bigint, at timestamptz NOT NULL DEFAULT now(), "
    "keep_until timestamptz)"
)
# Asks for all columns and all that is done with them, and does nothing.
_TRY = (
    "WITH gone AS (DELETE FROM {0} WHERE id IS NULL RETURNING id, number, at, keep_until) "
    "INSERT INTO {0} (id, number, at, keep_until) SELECT id, number, at, keep_until FROM gone "
    "ON CONFLICT (id) DO UPDATE SET number = EXCLUDED.number, at = EXCLUDED.at"
)


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.1f}"
