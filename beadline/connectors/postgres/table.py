"""The table that a sink writes to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beadline.connectors.postgres.server import Server, said
from beadline.errors import ConfigurationError

_PART = r'"(?:[^"]|"")+"|[^".\s]+'
_NAME = re.compile(rf"({_PART})(?:\.({_PART}))?")
_NO_TABLE, _NO_COLUMN, _NOT_ALLOWED, _NO_KEY, _NO_SCHEMA = "42P01", "42703", "42501", "42P10", "3F000"
_STAGED = "beadline_rows"
_ORDER = "beadline_order"


def parts_of(name: str) -> tuple[str, ...]:
    """Schema and table of a name as SQL has it: without quotation marks it is taken in lower case."""
    found = _NAME.fullmatch(name.strip()) if isinstance(name, str) else None
    if found is None:
        raise ConfigurationError(
            f"{name!r} is not the name of a table. It is table or schema.table; what is not plain lower case goes in "
            'quotation marks: "My Schema"."Table"'
        )
    return tuple(
        part[1:-1].replace('""', '"') if part.startswith('"') else part.lower() for part in found.groups() if part
    )


@dataclass(frozen=True)
class Table:
    """Some columns of a table, and the statements that fill them.

    :ivar name: as SQL has it: ``table`` or ``schema.table``
    :ivar columns: names as they are, in the order of the values of a row
    :ivar keys: those of the columns that tell which row is replaced; none: rows are only added
    """

    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts_of(self.name)
        doubled = sorted({column for column in self.columns if self.columns.count(column) > 1})
        if doubled:
            raise ConfigurationError(f"column {doubled[0]!r} of {self.name} is named twice")
        strangers = [key for key in self.keys if key not in self.columns]
        if strangers:
            raise ConfigurationError(
                f"the key {strangers[0]!r} is not among the columns that are written to {self.name}, which are "
                f"{', '.join(self.columns)}"
            )

    # -- statements

    @property
    def identifier(self) -> Any:
        from psycopg import sql

        return sql.Identifier(*parts_of(self.name))

    def _listed(self, columns: tuple[str, ...]) -> Any:
        from psycopg import sql

        return sql.SQL(", ").join(map(sql.Identifier, columns))

    def copy_into(self) -> Any:
        """Rows straight into the table."""
        from psycopg import sql

        return sql.SQL("COPY {} ({}) FROM STDIN").format(self.identifier, self._listed(self.columns))

    def staging(self) -> Any:
        """A table of this session that takes rows before they replace others. It goes with the transaction."""
        from psycopg import sql

        text = "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT 0::bigint AS {}, {} FROM {} WITH NO DATA"
        return sql.SQL(text).format(
            sql.Identifier(_STAGED), sql.Identifier(_ORDER), self._listed(self.columns), self.identifier
        )

    def copy_into_staging(self) -> Any:
        from psycopg import sql

        columns = self._listed((_ORDER, *self.columns))
        return sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier("pg_temp", _STAGED), columns)

    def upsert(self) -> Any:
        """The newest staged row of each key into the table. The server compares keys: it knows which texts are equal in
        the column's type and collation."""
        from psycopg import sql

        rest = tuple(column for column in self.columns if column not in self.keys)
        update = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(column)) for column in rest)
        act = sql.SQL("UPDATE SET {}").format(update) if rest else sql.SQL("NOTHING")
        text = (
            "INSERT INTO {table} ({columns}) SELECT DISTINCT ON ({keys}) {columns} FROM {staged} "
            "ORDER BY {keys}, {order} DESC ON CONFLICT ({keys}) DO {act}"
        )
        return sql.SQL(text).format(
            table=self.identifier,
            columns=self._listed(self.columns),
            keys=self._listed(self.keys),
            staged=sql.Identifier("pg_temp", _STAGED),
            order=sql.Identifier(_ORDER),
            act=act,
        )

    def forget_staged(self) -> Any:
        from psycopg import sql

        return sql.SQL("TRUNCATE {}").format(sql.Identifier("pg_temp", _STAGED))

    # -- before the job starts

    def check(self, server: Server) -> None:
        """Whether this user can write these columns: the server is asked, with nothing to write."""
        import psycopg

        what = f"looking at the table {self.name}"
        server.retrying(what, lambda connection: connection.execute("SELECT 1"))
        with server.explained(what), server.session() as connection:
            try:
                with connection.transaction(force_rollback=True):
                    for statement in self._trials():
                        connection.execute(statement)
            except psycopg.Error as error:
                problem = self._problem(server, error)
                if problem is None:
                    raise
                raise problem from None

    def _trials(self) -> Iterator[Any]:
        from psycopg import sql

        if self.keys:
            yield self.staging()
            yield sql.SQL("EXPLAIN ") + self.upsert()
        else:
            nothing = sql.SQL(", ").join([sql.SQL("NULL")] * len(self.columns))
            yield sql.SQL("EXPLAIN INSERT INTO {} ({}) SELECT {} WHERE false").format(
                self.identifier, self._listed(self.columns), nothing
            )

    def _problem(self, server: Server, error: Any) -> Exception | None:
        """What to do about an answer; None if it is not about the table."""
        advice = {
            _NO_TABLE: "Create it, or name its schema: schema.table",
            _NO_SCHEMA: "Create the schema, or name another one",
            _NO_COLUMN: "Name columns that it has with set_columns()",
            _NOT_ALLOWED: f"GRANT {'SELECT, INSERT, UPDATE' if self.keys else 'INSERT'} ON {self.name} TO the user of "
            "the job" + (", and TEMPORARY ON its DATABASE" if self.keys else ""),
            _NO_KEY: f"CREATE UNIQUE INDEX ON {self.name} ({', '.join(self.keys)})",
        }
        if error.sqlstate not in advice and not str(error.sqlstate).startswith("42"):
            return None
        text = f"can't write to the table {self.name} ({', '.join(self.columns)}) at {server.label}: {said(error)}"
        return ConfigurationError(f"{text}. {advice.get(error.sqlstate, 'Change the table or the columns')}")
