"""A statement that is executed for each row."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beadline.connectors.jdbc.databases import Database
from beadline.connectors.jdbc.placeholders import count
from beadline.connectors.transactions import Entry, Log

_LOG = logging.getLogger("beadline")


@dataclass(frozen=True)
class StatementLog(Log):
    """Executes a statement, a batch of rows at a time, each batch in a transaction. After a failure some may come
    again: make the statement one that can be repeated (``INSERT … ON CONFLICT …``) if that does harm.

    :ivar batch_size: rows in a batch
    :ivar max_retries: how often a batch is tried again, after one second, two and so on
    """

    database: Database
    statement: str
    batch_size: int
    max_retries: int

    exactly_once = False

    def check(self) -> None:
        self.database.check(self.statement, count(self.statement))

    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        statement = self.database.prepare(self.statement)
        for rows in self._sized(batches):
            self._execute(statement, rows)

    def _sized(self, batches: Iterator[list[Any]]) -> Iterator[list[Any]]:
        waiting: list[Any] = []
        for rows in batches:
            waiting += map(self.database.parameters, rows)
            full = len(waiting) - len(waiting) % self.batch_size
            for first in range(0, full, self.batch_size):
                yield waiting[first : first + self.batch_size]
            del waiting[:full]
        if waiting:
            yield waiting

    def _execute(self, statement: str, rows: list[Any]) -> None:
        for attempt in range(1, self.max_retries + 1):
            try:
                return self.database.execute(statement, rows)
            except ConnectionError as error:
                _LOG.warning("%s; trying again, %d of %d", error, attempt, self.max_retries)
                time.sleep(attempt)
        return self.database.execute(statement, rows)
