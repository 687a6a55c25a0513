"""PostgreSQL in and out, beyond what PyFlink has: an exactly-once sink, an upsert sink, and a source.

For programs that use PyFlink's ``JdbcSink`` there is :mod:`beadline.datastream.connectors.jdbc`.
"""

from __future__ import annotations

import copy
import datetime as dt
import re
from typing import Any, Self

from beadline.common import Duration
from beadline.common.typeinfo import RowTypeInfo, TypeInformation
from beadline.connectors.postgres import (
    AppendLog,
    Bookkeeping,
    PostgresReader,
    PreparedTransactions,
    Reading,
    Server,
    Table,
    ToRows,
    UpsertLog,
)
from beadline.connectors.sink import StagedSink
from beadline.connectors.transactions import LogSink, TransactionalSink
from beadline.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from beadline.errors import ConfigurationError, UnsupportedFeatureError

__all__ = ["PostgresSink", "PostgresSinkBuilder", "PostgresSource", "PostgresSourceBuilder"]

_PREFIX = "beadline"
_IS_PREFIX = re.compile(r"[a-zA-Z][\w.-]{0,99}", re.ASCII)


class _Access:
    """What both builders know of the server."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._user: str | None = None
        self._password: str | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def set_url(self, url: str) -> Self:
        """``postgresql://user:password@host:port/database?option=value``, as libpq reads it. What it leaves out comes
        from the environment (``PGPASSWORD``, ``~/.pgpass``, …) of each machine."""
        self._url = url
        return self

    def set_user(self, user: str) -> Self:
        self._user = user
        return self

    def set_password(self, password: str) -> Self:
        """The password, if it is not to be in the URL. It appears in no message."""
        self._password = password
        return self

    def _server(self, who: str) -> Server:
        if self._url is None:
            raise ConfigurationError(f"{who} needs set_url('postgresql://user@host:5432/database')")
        return Server.at(self._url, self._user, self._password)


class PostgresSinkBuilder(_Access):
    """Sets up a :class:`PostgresSink`."""

    def __init__(self) -> None:
        super().__init__()
        self._table: str | None = None
        self._columns: tuple[str, ...] | None = None
        self._keys: tuple[str, ...] = ()
        self._guarantee = DeliveryGuarantee.EXACTLY_ONCE
        self._prefix = _PREFIX
        self._schema: str | None = None
        self._keep = Bookkeeping().keep_seconds

    def set_table(self, table: str) -> PostgresSinkBuilder:
        """``table`` or ``schema.table``, as SQL has it."""
        self._table = table
        return self

    def set_columns(self, *columns: str) -> PostgresSinkBuilder:
        """The columns for the fields of a record, in their order. By default they have the names of the fields of the
        stream's row type."""
        self._columns = columns
        return self

    def set_keys(self, *columns: str) -> PostgresSinkBuilder:
        """A row takes the place of the one that has the same values in these columns, which need a unique index. Of
        several such rows in one checkpoint the last one of a subtask counts: key the stream by the same fields."""
        self._keys = columns
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> PostgresSinkBuilder:
        """``EXACTLY_ONCE``, the default, or ``AT_LEAST_ONCE``: rows are then added whenever a step is sealed, and may
        come twice."""
        if delivery_guarantee is DeliveryGuarantee.NONE:
            raise UnsupportedFeatureError(
                "PostgresSink does not write with DeliveryGuarantee.NONE, which would be no faster: use AT_LEAST_ONCE"
            )
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, prefix: str) -> PostgresSinkBuilder:
        """How the ids of prepared transactions begin, to tell them from those of others in ``pg_prepared_xacts``."""
        if not _IS_PREFIX.fullmatch(prefix):
            raise ConfigurationError(
                f"the prefix of transaction ids is up to 100 letters, digits, '_', '.' and '-', and "
                f"begins with a letter; got {prefix!r}"
            )
        self._prefix = prefix
        return self

    def set_bookkeeping_schema(self, schema: str) -> PostgresSinkBuilder:
        """Where the table ``beadline_transactions`` is, in which the database remembers what was committed. By default
        it is where the user's new tables are made."""
        self._schema = schema
        return self

    def set_bookkeeping_retention(self, retention: Duration) -> PostgresSinkBuilder:
        """How long the database remembers while the job runs: as long as you may want to go back to an old checkpoint.
        The default is a day."""
        if retention.to_millis() <= 0:
            raise ConfigurationError(f"the retention must be positive, got {retention!r}")
        self._keep = retention.to_millis() / 1000
        return self

    def build(self) -> PostgresSink:
        if self._table is None:
            raise ConfigurationError("PostgresSink needs set_table('table')")
        if self._keys and self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            raise ConfigurationError("PostgresSink with set_keys() is exactly-once: leave set_delivery_guarantee() out")
        self._server("PostgresSink")
        return PostgresSink(copy.copy(self))


class PostgresSink(Sink):
    """Rows to a table of PostgreSQL, with ``pip install 'beadline[postgres]'``::

        PostgresSink.builder().set_url("postgresql://user@host/database").set_table("totals").build()

    Rows are added, each once, in prepared transactions that the checkpoint commits. With ``set_keys()`` they replace
    rows with the same key. Both need checkpoints.
    """

    def __init__(self, builder: PostgresSinkBuilder) -> None:
        self._builder = builder

    @staticmethod
    def builder() -> PostgresSinkBuilder:
        return PostgresSinkBuilder()

    def _make_sink(self, type_info: TypeInformation) -> StagedSink:
        builder = self._builder
        assert builder._table is not None
        server = builder._server("PostgresSink")
        columns = builder._columns or _columns_of(type_info, builder._table)
        table = Table(builder._table, tuple(columns), builder._keys)
        bookkeeping = Bookkeeping(builder._schema, builder._keep)
        encode = ToRows(table.columns)
        if table.keys:
            return LogSink(UpsertLog(server, table, bookkeeping), encode)
        if builder._guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
            return LogSink(AppendLog(server, table), encode)
        return TransactionalSink(PreparedTransactions(server, table, bookkeeping), encode, builder._prefix)


def _columns_of(type_info: TypeInformation, table: str) -> list[str]:
    if isinstance(type_info, RowTypeInfo):
        return type_info.get_field_names()
    raise ConfigurationError(
        f"PostgresSink must know which columns of {table} to write: name them with set_columns(), or declare the "
        f"stream's type as Types.ROW_NAMED(names, types); it is {type_info!r}"
    )


class PostgresSourceBuilder(_Access):
    """Sets up a :class:`PostgresSource`."""

    def __init__(self) -> None:
        super().__init__()
        self._table: str | None = None
        self._query: str | None = None
        self._column: str | None = None
        self._start: str | None = None
        self._lag: float | None = None
        self._poll: float | None = 1.0

    def set_table(self, table: str) -> PostgresSourceBuilder:
        """``table`` or ``schema.table``, as SQL has it; it may be a view."""
        self._table = table
        return self

    def set_query(self, query: str) -> PostgresSourceBuilder:
        """A SELECT whose rows are read, instead of those of a table."""
        self._query = query
        return self

    def set_column(self, column: str) -> PostgresSourceBuilder:
        """The column by which rows are read. New rows must have higher values, and rows must not change. It needs an
        index."""
        self._column = column
        return self

    def set_start_after(self, value: Any) -> PostgresSourceBuilder:
        """Begin with the rows after this value of the column; by default with the first row."""
        if not isinstance(value, (int, float, str, dt.date, dt.datetime)) or isinstance(value, bool):
            raise ConfigurationError(f"set_start_after() takes a number, a text, a date or a datetime, got {value!r}")
        self._start = value.isoformat() if isinstance(value, dt.date) else str(value)
        return self

    def set_bounded(self) -> PostgresSourceBuilder:
        """Read the rows that are there when the job starts, and end."""
        self._poll = None
        return self

    def set_poll_interval(self, interval: Duration) -> PostgresSourceBuilder:
        """How often to look for new rows; by default every second."""
        if interval.to_millis() <= 0:
            raise ConfigurationError(f"the poll interval must be positive, got {interval!r}")
        self._poll = interval.to_millis() / 1000
        return self

    def set_lag(self, lag: Duration) -> PostgresSourceBuilder:
        """Leave rows alone until they are so old by the column, which must be a date or time. It says how late a row
        can appear after that time: at least the length of the longest transaction that writes to the table. Needed if
        the column is filled by ``now()`` or by the application, and for standbys, subscribed tables, foreign tables and
        materialized views. For numbers that the database draws from a sequence when it inserts, the source itself waits
        for writers."""
        if lag.to_millis() < 0:
            raise ConfigurationError(f"the lag must not be negative, got {lag!r}")
        self._lag = lag.to_millis() / 1000
        return self

    def build(self) -> PostgresSource:
        if self._column is None:
            raise ConfigurationError("PostgresSource needs set_column(): the column that grows from row to row")
        reading = Reading(self._table, self._query, self._column, self._start, self._lag, self._poll)
        return PostgresSource(PostgresReader(self._server("PostgresSource"), reading))


class PostgresSource(Source):
    """The rows of a table or query, in the order of a column that grows::

        PostgresSource.builder().set_url("postgresql://user@host/database").set_table("orders").set_column("id").build()

    Records are ``Row`` objects with the names of the columns, and Python's values. It goes on for ever, unless it is
    ``set_bounded()``.
    """

    def __init__(self, source: PostgresReader) -> None:
        self._source = source

    @staticmethod
    def builder() -> PostgresSourceBuilder:
        return PostgresSourceBuilder()

    def _make_source(self) -> PostgresReader:
        return self._source
