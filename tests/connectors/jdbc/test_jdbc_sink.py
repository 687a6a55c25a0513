"""JdbcSink as PyFlink's programs use it, on SQLite and on PostgreSQL."""

from __future__ import annotations

import datetime as dt
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from beadline.common import Row, Types
from beadline.connectors.postgres.sessions import close_all
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from beadline.errors import ConfigurationError, JobExecutionError, UnsupportedFeatureError
from beadline.services import PostgresServer

pytestmark = pytest.mark.usefixtures("local_engine")

ORDER = Types.ROW_NAMED(["id", "item", "price"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
INSERT = "INSERT INTO orders (id, item, price) VALUES (?, ?, ?)"


def at(url: str, **more: str) -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    for name, value in more.items():
        builder = getattr(builder, f"with_{name}")(value)
    return builder.build()


def run(records: list[Any], sink: JdbcSink, type_info: Any = ORDER, parallelism: int = 1) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    env.from_collection(records, type_info).add_sink(sink).name("to the database")
    env.execute("jdbc")


class Database:
    """A database with one table.

    :ivar url: for JdbcSink
    :ivar ask: executes a statement, and gives its rows
    """

    def __init__(self, url: str, ask: Callable[[str], list[Any]]) -> None:
        self.url = url
        self.ask = ask


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path, isolation_level=None)
    yield Database(f"jdbc:sqlite:{path}", lambda text: connection.execute(text).fetchall())
    connection.close()


@pytest.fixture
def postgresql(postgres: PostgresServer) -> Iterator[Database]:
    """Each test has a schema of its own."""
    schema = f"s_{uuid.uuid4().hex[:12]}"

    def ask(text: str) -> list[Any]:
        with psycopg.connect(postgres.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    ask(f"CREATE SCHEMA {schema}")
    yield Database(f"{postgres.jdbc_url}&currentSchema={schema}", ask)
    close_all()
    ask(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(request.param)
    found.ask("CREATE TABLE orders (id bigint PRIMARY KEY, item text, price double precision)")
    return found


def test_rows_become_rows(database: Database) -> None:
    records = [Row(number, f"item {number}", None if number % 3 else number / 4) for number in range(100)]
    execution = JdbcExecutionOptions.builder().with_batch_size(7).with_batch_interval_ms(200).with_max_retries(5)
    run(records, JdbcSink.sink(INSERT, ORDER, at(database.url), execution.build()), parallelism=2)
    assert database.ask("SELECT * FROM orders ORDER BY id") == [tuple(record) for record in records]


def test_statements_that_can_be_repeated(database: Database) -> None:
    upsert = f"{INSERT} ON CONFLICT (id) DO UPDATE SET item = excluded.item, price = excluded.price"
    records = [(1, "old", 1.0), (2, "b", 2.0), (1, "new", 3.0)]
    run(records, JdbcSink.sink(upsert, ORDER, at(database.url)))
    assert database.ask("SELECT * FROM orders ORDER BY id") == [(1, "new", 3.0), (2, "b", 2.0)]


def test_a_tuple_stream_and_a_statement_of_another_kind(database: Database) -> None:
    database.ask("INSERT INTO orders VALUES (1, 'a', 1.0), (2, 'b', 2.0)")
    kind = Types.ROW([Types.STRING(), Types.LONG()])
    sink = JdbcSink.sink("UPDATE orders SET item = ? || '?' WHERE id = ?", kind, at(database.url))
    run([("new", 2)], sink, Types.TUPLE([Types.STRING(), Types.LONG()]))
    assert database.ask("SELECT item FROM orders ORDER BY id") == [("a",), ("new?",)]


def test_a_record_that_does_not_fit_the_type(database: Database) -> None:
    with pytest.raises(JobExecutionError, match="field 'price'"):
        run([(1, "a", "dear")], JdbcSink.sink(INSERT, ORDER, at(database.url)), Types.PICKLED_BYTE_ARRAY())
    assert database.ask("SELECT count(*) FROM orders") == [(0,)]


def test_rows_that_the_database_refuses(database: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)unique"):
        run([(1, "a", 1.0), (1, "b", 2.0)], JdbcSink.sink(INSERT, ORDER, at(database.url)))
    assert database.ask("SELECT count(*) FROM orders") == [(0,)], "a batch is one transaction"


def test_a_table_that_does_not_exist(database: Database) -> None:
    sink = JdbcSink.sink("INSERT INTO invoices (id) VALUES (?)", Types.ROW([Types.LONG()]), at(database.url))
    with pytest.raises(ConfigurationError, match=r"invoices.*INSERT INTO invoices"):
        run([(1,)], sink, Types.TUPLE([Types.LONG()]))


def test_a_column_that_does_not_exist(database: Database) -> None:
    sink = JdbcSink.sink("INSERT INTO orders (nr) VALUES (?)", Types.ROW([Types.LONG()]), at(database.url))
    with pytest.raises(ConfigurationError, match="nr"):
        run([(1,)], sink, Types.TUPLE([Types.LONG()]))


EVERYTHING = [
    (Types.BOOLEAN(), True),
    (Types.SHORT(), -7),
    (Types.BIG_DEC(), Decimal("12345678901234567890.5")),
    (Types.SQL_DATE(), dt.date(2024, 2, 29)),
    (Types.SQL_TIME(), dt.time(12, 30, 1)),
    (Types.SQL_TIMESTAMP(), dt.datetime(2024, 2, 29, 12, 30, 1, 250_000)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    (Types.CHAR(), "x"),
]
ROW = Types.ROW([kind for kind, _ in EVERYTHING])
VALUES = tuple(value for _, value in EVERYTHING)
SEND = f"INSERT INTO everything VALUES ({', '.join('?' * len(EVERYTHING))})"


@pytest.mark.postgres
def test_types_on_postgresql(postgresql: Database) -> None:
    kinds = "a boolean, b smallint, c numeric, d date, e time, f timestamp, g bytea, h text"
    postgresql.ask(f"CREATE TABLE everything ({kinds})")
    run([Row(*VALUES), Row(*[None] * len(VALUES))], JdbcSink.sink(SEND, ROW, at(postgresql.url)), ROW)
    assert postgresql.ask("SELECT * FROM everything ORDER BY b") == [VALUES, (None,) * len(VALUES)]


@pytest.mark.postgres
def test_arrays_on_postgresql(postgresql: Database) -> None:
    postgresql.ask("CREATE TABLE lists (words text[], numbers bigint[])")
    kind = Types.ROW([Types.BASIC_ARRAY(Types.STRING()), Types.PRIMITIVE_ARRAY(Types.LONG())])
    sink = JdbcSink.sink("INSERT INTO lists VALUES (?, ?)", kind, at(postgresql.url))
    run([Row(["a", "b"], [1, 2])], sink, kind)
    assert postgresql.ask("SELECT * FROM lists") == [(["a", "b"], [1, 2])]


def test_types_on_sqlite(sqlite: Database) -> None:
    """It has numbers, texts and bytes: times are written as its own functions read them."""
    sqlite.ask("CREATE TABLE everything (a, b, c, d, e, f, g, h)")
    run([Row(*VALUES)], JdbcSink.sink(SEND, ROW, at(sqlite.url)), ROW)
    assert sqlite.ask("SELECT * FROM everything") == [
        (1, -7, "12345678901234567890.5", "2024-02-29", "12:30:01", "2024-02-29 12:30:01.250000", b"\x00\xff", "x")
    ]
    assert sqlite.ask("SELECT strftime('%Y %M', f) FROM everything") == [("2024 30",)]


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        (Types.MAP(Types.STRING(), Types.LONG()), "jdbc:postgresql://db/x"),
        (Types.INSTANT(), "jdbc:postgresql://db/x"),
        (Types.ROW([Types.LONG()]), "jdbc:sqlite:a.db"),
        (Types.BASIC_ARRAY(Types.STRING()), "jdbc:sqlite:a.db"),
        (Types.PICKLED_BYTE_ARRAY(), "jdbc:sqlite:a.db"),
    ],
    ids=["map", "instant", "row", "array", "pickle"],
)
def test_types_that_cannot_be_written(kind: Any, url: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="field 'f0'"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", Types.ROW([kind]), at(url))


def test_as_many_fields_as_question_marks() -> None:
    with pytest.raises(ConfigurationError, match=r"takes 2 values .* have 3 fields"):
        JdbcSink.sink("INSERT INTO t VALUES (?, ?, '?')", ORDER, at("jdbc:sqlite:a.db"))
    with pytest.raises(ConfigurationError, match=r"Types\.ROW"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", Types.STRING(), at("jdbc:sqlite:a.db"))  # type: ignore[arg-type]


def test_options_have_flinks_defaults() -> None:
    options = JdbcExecutionOptions.defaults()
    assert (options.get_batch_size(), options.get_batch_interval_ms(), options.get_max_retries()) == (5000, 0, 3)
    connection = at("jdbc:sqlite:a.db", driver_name="org.sqlite.JDBC", user_name="me", password="Geh3im")
    assert connection.get_db_url() == "jdbc:sqlite:a.db"
    assert connection.get_driver_name() == "org.sqlite.JDBC"
    assert (connection.get_user_name(), connection.get_password()) == ("me", "Geh3im")
    assert "Geh3im" not in repr(connection)


@pytest.mark.parametrize(
    ("option", "value"), [("batch_size", 0), ("batch_interval_ms", -1), ("max_retries", -1), ("batch_size", "many")]
)
def test_options_that_cannot_be(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=repr(value)):
        getattr(JdbcExecutionOptions.builder(), f"with_{option}")(value)


def test_a_url_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="with_url"):
        JdbcSink.sink(INSERT, ORDER, JdbcConnectionOptions.JdbcConnectionOptionsBuilder().build())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "nothing.db"
    with pytest.raises(ConfigurationError, match="unable to open database file"):
        run([(1, "a", 1.0)], JdbcSink.sink(INSERT, ORDER, at(f"jdbc:sqlite:{path}")))
    assert not path.exists()


@pytest.mark.postgres
def test_a_server_that_is_restarted_meanwhile(postgresql: Database, postgres: PostgresServer) -> None:
    """A batch that meets a lost connection is tried again."""
    from beadline.connectors.jdbc import StatementLog, database_of
    from beadline.connectors.transactions import Entry

    postgresql.ask("CREATE TABLE orders (id bigint)")
    log = StatementLog(database_of(postgresql.url, None, None, None), "INSERT INTO orders VALUES (?)", 2, 3)
    log.check()

    def batches() -> Iterator[list[Any]]:
        yield [(1,), (2,), (3,)]
        postgres.restart()
        yield [(4,), (5,)]

    log.append(Entry("w", 0, 1), batches())
    assert postgresql.ask("SELECT id FROM orders ORDER BY id") == [(1,), (2,), (3,), (4,), (5,)]
