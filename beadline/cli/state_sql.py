"""SQL over state, with DuckDB. Only the tables that a query names are read, into a temporary database on disk, so that
state may be larger than memory."""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beadline.cli.output import CommandError, console, plain, say, table
from beadline.shown_text import printable

if TYPE_CHECKING:
    from beadline.state_processor.catalog import Catalog
    from beadline.state_processor.local.tables import StateTable

_ROWS = 1000
#: So many rows are shown as a table.
_SHOWN = 1000


class Answer:
    """The columns and rows that a query gives."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.columns = [column[0] for column in cursor.description or ()]

    @property
    def unique_columns(self) -> list[str]:
        """The names of the columns, with numbers where one comes again: ``value``, ``value_2``."""
        names: list[str] = []
        for column in self.columns:
            name, again = column, 1
            while name in names:
                again += 1
                name = f"{column}_{again}"
            names.append(name)
        return names

    def rows(self) -> Iterator[tuple[Any, ...]]:
        while chunk := self._cursor.fetchmany(_ROWS):
            yield from chunk


@contextmanager
def asked(catalog: Catalog, query: str) -> Iterator[Answer]:
    """The answer to a query over the states of a snapshot."""
    try:
        import duckdb
    except ImportError:
        raise CommandError(
            "SQL over state needs DuckDB, which is not installed: pip install 'beadline[sql]'. "
            "'beadline state list', 'key', 'largest' and 'sizes' need nothing more"
        ) from None
    from beadline.state_processor.local.tables import tables_of

    tables = tables_of(catalog)
    with tempfile.TemporaryDirectory(prefix="beadline-sql-") as folder:
        connection = duckdb.connect(str(Path(folder) / "state.duckdb"))
        try:
            named = _named(connection, query)
            for state in tables:
                _add(connection, state, filled=named is None or state.name in named)
            if tables:
                # A state can be named without its operator, if no other operator has one of the same name.
                schemas = dict.fromkeys(state.schema for state in tables)
                connection.execute(f"SET search_path = 'main,{','.join(schemas)}'")
            yield Answer(connection.execute(query))
        except duckdb.Error as error:
            raise CommandError(_explained(str(error), tables)) from error
        finally:
            connection.close()


def _named(connection: Any, query: str) -> set[str] | None:
    """The tables that a query names, None if that can't be told."""
    import duckdb

    try:
        return {name.lower() for name in connection.get_table_names(query)}
    except duckdb.Error:
        return None


def _add(connection: Any, state: StateTable, filled: bool) -> None:
    """The table, with its rows if the query names it; empty otherwise, so that it can be listed and described."""
    connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{state.schema}"')
    rows = state.read() if filled else state.columns.empty_table()
    connection.register("_rows", rows)
    connection.execute(f'CREATE TABLE "{state.schema}"."{state.name}" AS SELECT * FROM _rows')
    connection.unregister("_rows")


def _explained(problem: str, tables: Sequence[StateTable]) -> str:
    if "Catalog Error" not in problem and "does not exist" not in problem:
        return problem
    listed = "\n".join(f"  {state.full_name}: {', '.join(state.columns.names)} ({state.about})" for state in tables)
    return f"{problem}\nThe tables are:\n{listed or '  none: no operator has state'}"


# -- showing it


def show_table(answer: Answer) -> None:
    rows = iter(answer.rows())
    shown = table(*map(plain, answer.columns))
    more = 0
    for row in rows:
        if shown.row_count < _SHOWN:
            shown.add_row(*(plain(_cell(value)) for value in row))
        else:
            more += 1
    console().print(shown)
    if more:
        say(f"… and {more:,} more rows: --csv and --json print all of them", err=True)


def show_json(answer: Answer) -> None:
    """A list of objects, written as the rows come."""
    from beadline.state_processor.columns import plain as as_json

    out, columns = sys.stdout, answer.unique_columns
    out.write("[")
    for number, row in enumerate(answer.rows()):
        found = {name: as_json(value) for name, value in zip(columns, row, strict=True)}
        out.write(("," if number else "") + "\n  " + json.dumps(found))
    out.write("\n]\n")


def show_csv(answer: Answer) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    on_terminal = sys.stdout.isatty()
    writer.writerow(map(printable, answer.columns) if on_terminal else answer.columns)
    for row in answer.rows():
        cells = ["" if value is None else _cell(value) for value in row]
        writer.writerow([printable(cell) for cell in cells] if on_terminal else cells)


def _cell(value: Any) -> str:
    from beadline.state_processor.columns import text_of

    return text_of(value) or ""
