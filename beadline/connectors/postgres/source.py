"""A table, or what a query gives, read by a column that grows: a number from a sequence, a time.

The driver fixes the range of each step, from one value of the column to another, and tasks read it. That gives the same
rows whenever it is read only if no row comes later with a value that was already passed. Numbers are drawn from a
sequence when a row is inserted, and seen when its transaction commits: of two writers the later one may commit first.
So the driver reads no further than it knows to be complete:

1. it notes the highest value that can be seen, and then who is writing to the table
2. when all of these have ended, all rows up to that value can be seen: it is *safe*

Nobody is kept waiting, neither writers nor, when there are none, the source. What this can't know of are values that
were drawn long before they are inserted: times of the beginning of a transaction (``now()``), numbers that the
application or a sequence with a cache gives out. For these there is the lag: the user says how late a row may appear.

Where the server does not show who is writing (:mod:`beadline.connectors.postgres.relations`), only the lag remains, and
without it the source is refused. It is looked at again before each range, for it changes: a standby is promoted, a
table is replaced by a view. A standby may be far behind its primary, so there the lag counts from the last transaction
that it has repeated, and each task looks whether the server that it happens to reach has got that far.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beadline.common.types import new_row
from beadline.connectors.postgres.relations import Relations, relation_named, relations_below, relations_of, writers
from beadline.connectors.postgres.server import Server, said
from beadline.connectors.postgres.table import parts_of
from beadline.connectors.source import BATCH, Position, StepSource
from beadline.errors import ConfigurationError, InputError

_LOG = logging.getLogger("beadline.postgres")
_WAITING = 0.1


@dataclass(frozen=True)
class Reading:
    """What is read.

    :ivar table: its name, or None for a query
    :ivar query: a SELECT, or None for a table
    :ivar column: the one that grows
    :ivar start: begin after this value, given as PostgreSQL writes it; None: with the first row
    :ivar lag: leave out what is younger than so many seconds, by the column, which must be a time; None: read all
    :ivar poll_seconds: how often to look for new rows; None: read what is there when the job starts, and end
    """

    table: str | None
    query: str | None
    column: str
    start: str | None = None
    lag: float | None = None
    poll_seconds: float | None = None

    @property
    def name(self) -> str:
        return self.table if self.table is not None else "the query"


class PostgresReader(StepSource):
    """A position is ``{"after": value, "end": value, "relation": id}``: what was read last and, if the source ends,
    where. Values are text, as PostgreSQL writes them; None is before the first row. By the id a table that was made
    again is noticed; a query and a position of the very beginning have none."""

    def __init__(self, server: Server, reading: Reading) -> None:
        if (reading.table is None) == (reading.query is None):
            raise ConfigurationError("PostgresSource reads a table (set_table) or a query (set_query): name one")
        if reading.table is not None:
            parts_of(reading.table)
        self._server = server
        self._reading = reading
        self._poll = reading.poll_seconds
        self.bounded = reading.poll_seconds is None
        self._unique = False
        self._safe: str | None = None  # all rows up to this value can be seen
        self._candidate: tuple[str, frozenset[str]] | None = None  # and up to this one when these writers have ended
        self._looked_at = float("-inf")
        self._relation: int | None = None
        self._told_of: int | None = None

    def __repr__(self) -> str:
        return f"<PostgresReader of {self._reading.name} by {self._reading.column} at {self._server.label}>"

    # -- on the driver

    def prepare(self, batch: bool) -> None:
        if batch:
            self._poll, self.bounded = None, True
        self._check()

    def _check(self) -> None:
        """Whether the rows can be read and compared."""
        import psycopg

        def act(connection: Any) -> Any:
            try:
                problem = self._problem(self._relations(connection))
                if problem is not None:
                    return ConfigurationError(problem)
                connection.execute(self._select("q.*", "ORDER BY {c} LIMIT 0"), [])
                if self._reading.lag is not None:
                    connection.execute(self._select("1", "AND {c} <= clock_timestamp() LIMIT 0"), [])
                if self._reading.start is not None:
                    connection.execute(self._select("1", "AND {c} > %s LIMIT 0"), [self._reading.start])
                return connection.execute(_UNIQUE, [self._quoted(), self._reading.column]).fetchone()[0]
            except psycopg.Error as error:
                if not str(error.sqlstate).startswith(("42", "22", "3F")):
                    raise
                return ConfigurationError(
                    f"can't read {self._reading.name} by the column {self._reading.column} at {self._server.label}: "
                    f"{self._server.hidden(said(error))}. Name a table or query that the user may read, and a column "
                    "that grows from row to row" + self._about_lag()
                )

        answer = self._server.retrying(f"looking at {self._reading.name}", act)
        if isinstance(answer, ConfigurationError):
            raise answer
        self._unique = answer

    def _relations(self, connection: Any) -> Relations:
        """What is read, as it is now."""
        table = self._quoted()
        if table is None:
            return relations_below(connection, relations_of(connection, self._select("1", "LIMIT 0")))
        roots = relation_named(connection, table)
        self._relation = next(iter(roots), None)
        return relations_below(connection, roots)

    def _problem(self, relations: Relations) -> str | None:
        """Why rows could be passed over, if nothing is known of how late they may appear."""
        if relations.problem is None or self._reading.lag is not None:
            return None
        return (
            f"PostgresSource can't tell when {self._reading.name} at {self._server.label} is complete up to a value: "
            f"{relations.problem}. Rows that appear late would be lost. Read them on the server where they are "
            "written, from the tables themselves; or read by a column with times, and say with set_lag() how late "
            "after the time in its column a row may appear."
        )

    def _about_lag(self) -> str:
        return "; with set_lag() that must be a date or time" if self._reading.lag is not None else ""

    def initial(self) -> Position:
        after = self._reading.start
        if not self.bounded:
            return {"after": after, "end": None}

        def act(connection: Any) -> Any:
            return self._highest(connection) if self._has_repeated(connection) else _NOTHING_REPEATED

        highest = self._server.retrying("looking for the last row", act)
        if highest is _NOTHING_REPEATED:
            raise InputError(
                f"The standby at {self._server.label} has repeated no transaction of its primary since it was started, "
                "so it can't be told how far it is. Wait until something has been written on the primary, and start "
                "the job again."
            )
        return {"after": after, "end": highest or after}

    def _has_repeated(self, connection: Any, value: str | None = None) -> bool:
        """Whether all rows can be seen that may be read by the lag, up to a value if one is given. True on a server
        that is no standby: there writers are looked at."""
        text = "SELECT NOT pg_is_in_recovery() OR coalesce({} <= pg_last_xact_replay_timestamp(), false)"
        if value is None or self._reading.lag is None:
            return bool(connection.execute(text.format("'-infinity'")).fetchone()[0])
        limit = "%s::timestamptz + make_interval(secs => %s)"
        return bool(connection.execute(text.format(limit), [value, self._reading.lag]).fetchone()[0])

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        if self.finished(start) or not self._is_time():
            return start, []

        def act(connection: Any) -> tuple[list[str], bool, str | None]:
            problem = self._look(connection)
            if problem is not None:
                return [], False, problem
            cuts = [] if self._safe is None else self._cuts(connection, start, max(rows, 1), parallelism)
            # The last rows may have been deleted meanwhile.
            over = (
                not cuts and self._candidate is None and self.bounded and self._has_repeated(connection, start["end"])
            )
            return cuts, over, None

        cuts, over, problem = self._server.retrying(f"planning a range of {self._reading.name}", act)
        if problem is not None:
            raise InputError(problem)
        if not cuts:
            self._looked_at = time.monotonic()
            return ({**start, "after": start["end"]} if over else start), []
        self._tell_of_another(start)
        ends = [start["after"], *cuts]
        relation = {} if self._relation is None else {"relation": self._relation}
        return {**start, "after": cuts[-1], **relation}, [
            pair for pair in itertools.pairwise(ends) if pair[0] != pair[1]
        ]

    def _tell_of_another(self, start: Position) -> None:
        """Another table may be a copy, as tools make it that change tables under way, so this is no error."""
        known = start.get("relation")
        if known is not None and self._relation not in (None, known, self._told_of):
            self._told_of = self._relation
            _LOG.warning(
                "%s at %s is another relation than before: it was dropped and made again, or replaced. Rows with a %s "
                "up to %s count as read. If the new one has others there, they are LEFT OUT: start the job without its "
                "checkpoints to read them",
                self._reading.name,
                self._server.label,
                self._reading.column,
                start["after"],
            )

    def _is_time(self) -> bool:
        """Whether to ask the server again, after it had nothing."""
        return time.monotonic() - self._looked_at >= self.poll_interval() / 2

    def _look(self, connection: Any) -> str | None:
        """Move on what is safe to be read. Gives what is in the way, if the server does not show who is writing."""
        open_now = self._writers(connection)
        if isinstance(open_now, str):
            return open_now
        if self._candidate is not None and not self._candidate[1] & open_now:
            self._safe, self._candidate = self._candidate[0], None
        if self._candidate is None:
            highest = self._highest(connection)
            if highest is not None and highest != self._safe:
                # What is read is looked up again: a child that was added before the highest value was seen counts.
                open_now = self._writers(connection)
                if isinstance(open_now, str):
                    return open_now
                if open_now:
                    self._candidate = highest, open_now
                else:
                    self._safe = highest
        return None

    def _highest(self, connection: Any) -> str | None:
        """The highest value that may be read, after the one to begin with."""
        where, values = "", list[Any]()
        if self._reading.start is not None:
            where, values = "AND {c} > %s ", [self._reading.start]
        if self._reading.lag is not None:
            where += f"AND {{c}} <= {_NOW} - make_interval(secs => %s) "
            values.append(self._reading.lag)
        statement = self._select("{c}::text", where + "ORDER BY {c} DESC LIMIT 1")
        found = connection.execute(statement, values).fetchone()
        return None if found is None else str(found[0])

    def _writers(self, connection: Any) -> frozenset[str] | str:
        """The transactions that have begun to write to what is read; for a query, to any table of the database, since
        the functions that it calls may read others. Or what is in the way of knowing them."""
        relations = self._relations(connection)
        problem = self._problem(relations)
        if problem is not None:
            return problem
        return writers(connection, relations if self._reading.table is not None else None)

    def _cuts(self, connection: Any, start: Position, rows: int, parallelism: int) -> list[str]:
        """Where the next splits end: about as many rows in each."""
        from psycopg import sql

        where, values = self._range(start["after"], self._safe)
        if start["end"] is not None:
            where, values = where + " AND {c} <= %s", [*values, start["end"]]
        ranked = self._select("{c} AS value", where + " ORDER BY {c} LIMIT %s")
        text = (
            "SELECT value::text AS shown FROM (SELECT value, row_number() OVER (ORDER BY value) AS place, "
            "count(*) OVER () AS total FROM ({}) AS found) AS placed "
            "WHERE place = total OR place %% ((total + %s - 1) / %s) = 0 ORDER BY place"
        )
        found = connection.execute(sql.SQL(text).format(ranked), [*values, rows, parallelism, parallelism])
        return list(dict.fromkeys(value for (value,) in found))

    def finished(self, position: Position) -> bool:
        return self.bounded and bool(position["after"] == position["end"])

    def poll_interval(self) -> float:
        if self._candidate is not None or self._poll is None:
            return _WAITING
        return max(_WAITING, self._poll)

    # -- in tasks

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        where, values = self._range(*split)
        # Rows with equal values have no order of their own, and a re-run must meet them in the same one.
        order = " ORDER BY {c}" if self._unique else " ORDER BY {c}, q::text"
        statement = self._select("q.*", where + order)
        what = f"reading {self._reading.name} from {split[0]} to {split[1]}"
        with (
            self._server.explained(what),
            self._server.session() as connection,
            connection.transaction(),
            connection.cursor(name="beadline") as cursor,
        ):
            self._check_repeated(connection, split[1])
            cursor.execute(statement, values)
            names = [column.name for column in cursor.description]
            while rows := cursor.fetchmany(BATCH):
                yield [new_row(list(row), names) for row in rows]

    def _check_repeated(self, connection: Any, high: str) -> None:
        """A URL may name several servers, and this one may be behind that which the driver has asked."""
        (standby,) = connection.execute("SELECT pg_is_in_recovery()").fetchone()
        if standby and (self._reading.lag is None or not self._has_repeated(connection, high)):
            raise InputError(
                f"The server that was reached at {self._server.label} is a standby, and it is not known to have all "
                f"rows of {self._reading.name} up to {high}. Name the server in the URL that the rows are to be read "
                "from, or add target_session_attrs=read-write, and the job goes on when it restarts."
            )

    # -- statements

    def _range(self, low: str | None, high: str | None) -> tuple[str, list[Any]]:
        """The rows after one value, up to another."""
        where = "AND {c} <= %s" if low is None else "AND {c} > %s AND {c} <= %s"
        return where, [high] if low is None else [low, high]

    def _select(self, what: str, rest: str) -> Any:
        """A statement over the rows ``q`` that have a value in the column ``{c}``."""
        from psycopg import sql

        rows = sql.SQL(self._escaped_query()) if self._reading.table is None else sql.Identifier(*self._table())
        text = f"SELECT {what} FROM {{rows}} AS q WHERE {{c}} IS NOT NULL {rest}"
        return sql.SQL(text).format(rows=rows, c=sql.Identifier("q", self._reading.column))

    def _escaped_query(self) -> str:
        assert self._reading.query is not None
        return "(" + self._reading.query.strip().rstrip(";").replace("%", "%%") + ")"

    def _table(self) -> tuple[str, ...]:
        assert self._reading.table is not None
        return parts_of(self._reading.table)

    def _quoted(self) -> str | None:
        """The table's name for ``to_regclass``."""
        if self._reading.table is None:
            return None
        return ".".join('"' + part.replace('"', '""') + '"' for part in self._table())


_NOTHING_REPEATED = object()
# On a standby: when the last transaction was committed that can be seen there. What comes later was committed later.
_NOW = "CASE WHEN pg_is_in_recovery() THEN pg_last_xact_replay_timestamp() ELSE clock_timestamp() END"
_UNIQUE = """
    SELECT EXISTS (
        SELECT 1 FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
            AND i.indpred IS NULL AND a.attname = %s
    )
"""
