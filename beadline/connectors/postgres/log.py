"""Rows that are written when they may be seen: added to a table, or in the place of those with the same key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from beadline.connectors.postgres.bookkeeping import Bookkeeping
from beadline.connectors.postgres.server import Server
from beadline.connectors.postgres.table import Table
from beadline.connectors.transactions import Entry, Log

_LOCK_SECONDS = 60
_ROWS = 20_000


@dataclass(frozen=True)
class AppendLog(Log):
    """Adds rows. One transaction for each entry: all of its rows or none."""

    server: Server
    table: Table

    def check(self) -> None:
        self.table.check(self.server)

    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        what = f"writing rows to {self.table.name}"
        with self.server.explained(what), self.server.session() as connection, connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
            with connection.cursor() as cursor, cursor.copy(self.table.copy_into()) as copy:
                write_row = copy.write_row
                for rows in batches:
                    for row in rows:
                        write_row(row)


@dataclass(frozen=True)
class UpsertLog(Log):
    """Puts rows in the place of those with the same key; of several rows with one key the last one counts.

    Writing an entry again would change nothing by itself, but a driver that was taken for dead could write old values
    over new ones. So the database remembers the newest entry of each subtask, and leaves older ones out.
    """

    server: Server
    table: Table
    bookkeeping: Bookkeeping = field(default_factory=Bookkeeping)

    exactly_once = True

    def check(self) -> None:
        self.table.check(self.server)
        self.bookkeeping.check(self.server)

    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        """Write an entry in one transaction.

        1. note its number; if that or a higher one is noted already, there is nothing to do
        2. some thousand rows at a time: copy them to a table of the session, and from there into the place of others
        """
        what = f"writing rows to {self.table.name}"
        with self.server.explained(what), self.server.session() as connection, connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
            if not self.bookkeeping.advance(connection, f"{entry.writer}-{entry.subtask}", entry.number):
                return
            connection.execute(self.table.staging())
            for number, rows in enumerate(_gathered(batches)):
                if number:
                    connection.execute(self.table.forget_staged())
                with connection.cursor() as cursor, cursor.copy(self.table.copy_into_staging()) as copy:
                    write_row = copy.write_row
                    for order, row in enumerate(rows):
                        write_row((order, *row))
                connection.execute(self.table.upsert())


def _gathered(batches: Iterator[list[Any]]) -> Iterator[list[Any]]:
    """The same rows in longer lists: a step may have staged a few at a time."""
    gathered: list[Any] = []
    for rows in batches:
        gathered += rows
        if len(gathered) >= _ROWS:
            yield gathered
            gathered = []
    if gathered:
        yield gathered
