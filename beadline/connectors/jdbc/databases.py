"""The databases behind JDBC URLs: how each prepares a statement, and executes it for many rows."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import sqlite3
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote
from uuid import UUID

from beadline.connectors.jdbc.placeholders import for_psycopg
from beadline.connectors.postgres.server import Server, passes, said
from beadline.errors import ConfigurationError

_LOCKED_SECONDS = 30.0
# SQLite says so in text only.
_PASSING = ("locked", "busy")
_PLANNED = re.compile(r"\s*(INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
# Syntax, table, column, schema, privilege, no index for ON CONFLICT, a server that can't be written to.
_WRONG = ("42601", "42P01", "42703", "3F000", "42501", "42P10", "25006")


class Database(ABC):
    """Executes a statement. Errors are :class:`ConfigurationError` if the statement can't work, else OSError."""

    @property
    @abstractmethod
    def label(self) -> str:
        """For people, without the password."""

    @abstractmethod
    def prepare(self, statement: str) -> str:
        """The statement with this database's sign for a value."""

    @abstractmethod
    def check(self, statement: str, values: int) -> None:
        """Whether the statement can be executed, as far as can be told without doing it."""

    @abstractmethod
    def execute(self, statement: str, rows: list[Any]) -> None:
        """Execute a prepared statement for each row, all in one transaction."""

    def parameters(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values of a row as this database takes them."""
        return row


@dataclass(frozen=True)
class PostgresDatabase(Database):
    """PostgreSQL, through psycopg."""

    server: Server

    @property
    def label(self) -> str:
        return self.server.label

    def prepare(self, statement: str) -> str:
        return for_psycopg(statement)

    def check(self, statement: str, values: int) -> None:
        """Plans the statement with NULL for all values. That tells what is missing; what else it does not like may be
        due to the values."""
        import psycopg

        if not _PLANNED.match(statement):
            return

        problem: Any = None

        def act(connection: Any) -> None:
            nonlocal problem
            try:
                with connection.transaction(force_rollback=True):
                    connection.execute("EXPLAIN " + self.prepare(statement), [None] * values)
            except psycopg.Error as error:
                if error.sqlstate is None:
                    raise
                problem = error if error.sqlstate in _WRONG else None

        self.server.retrying("looking at the statement of JdbcSink", act)
        if problem is not None:
            raise _refused(statement, self.label, self.server.hidden(said(problem)))

    def execute(self, statement: str, rows: list[Any]) -> None:
        import psycopg

        try:
            with self.server.session() as connection, connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(statement, rows)
        except psycopg.Error as error:
            problem = self.server.problem("executing the statement of JdbcSink", error)
            raise (ConnectionError(str(problem)) if passes(error) else problem) from None


@dataclass(frozen=True)
class SqliteDatabase(Database):
    """SQLite, of Python's standard library: a file that the driver and all workers reach."""

    path: str

    @property
    def label(self) -> str:
        return f"sqlite:{self.path}"

    def prepare(self, statement: str) -> str:
        return statement

    def check(self, statement: str, values: int) -> None:
        try:
            with self._connected() as connection:
                connection.execute("EXPLAIN " + statement, [None] * values)
        except sqlite3.Error as error:
            raise _refused(statement, self.label, str(error)) from None

    def execute(self, statement: str, rows: list[Any]) -> None:
        try:
            with self._connected() as connection, connection:
                connection.executemany(statement, rows)
        except sqlite3.Error as error:
            text = f"executing the statement of JdbcSink at {self.label} failed: {error}"
            passing = any(word in str(error) for word in _PASSING)
            raise (ConnectionError(text) if passing else OSError(text)) from None

    def _connected(self) -> contextlib.closing[sqlite3.Connection]:
        """The file must be there: an empty one would have no table to write to."""
        return contextlib.closing(
            sqlite3.connect(f"file:{quote(self.path)}?mode=rw", timeout=_LOCKED_SECONDS, uri=True)
        )

    def parameters(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([_STORED[type(value)](value) if type(value) in _STORED else value for value in row])


def _refused(statement: str, label: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the statement of JdbcSink can't be executed at {label}: {why}. Look at the table, its columns and what the "
        f"user may do: {statement}"
    )


# SQLite has numbers, texts and bytes. Times are texts of the form that its own functions read.
_STORED: dict[type, Any] = {
    Decimal: str,
    UUID: str,
    dt.date: dt.date.isoformat,
    dt.time: dt.time.isoformat,
    dt.datetime: lambda value: value.isoformat(" "),
}
