"""JDBC's question marks and URLs, as psycopg and SQLite want them."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import pytest

from beadline.connectors.jdbc import PostgresDatabase, SqliteDatabase, count, database_of, for_psycopg
from beadline.connectors.postgres import Server
from beadline.errors import ConfigurationError, EnvironmentSetupError, UnsupportedFeatureError


@pytest.mark.parametrize(
    ("statement", "values", "written"),
    [
        ("INSERT INTO t VALUES (?, ?)", 2, "INSERT INTO t VALUES (%s, %s)"),
        ("INSERT INTO t VALUES ('is it 100%?', ?)", 1, "INSERT INTO t VALUES ('is it 100%%?', %s)"),
        ('UPDATE "odd?" SET a = ? -- really?\nWHERE b = ?', 2, 'UPDATE "odd?" SET a = %s -- really?\nWHERE b = %s'),
        ("SELECT ? /* ?\n? */, 'it''s ?'", 1, "SELECT %s /* ?\n? */, 'it''s ?'"),
        ("SELECT $$ ? $$, $x$ ?$$? $x$, ?", 1, "SELECT $$ ? $$, $x$ ?$$? $x$, %s"),
        ("DELETE FROM t WHERE j ?? 'key' AND n % 2 = ?", 1, "DELETE FROM t WHERE j ? 'key' AND n %% 2 = %s"),
        ("TRUNCATE t", 0, "TRUNCATE t"),
    ],
)
def test_question_marks(statement: str, values: int, written: str) -> None:
    assert count(statement) == values
    assert for_psycopg(statement) == written


def settings(url: str, user: str | None = None, password: str | None = None) -> dict[str, str]:
    found = database_of(url, user, password, None)
    assert isinstance(found, PostgresDatabase)
    return dict(found.server.settings)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("jdbc:postgresql://db:6543/shop", {"host": "db", "port": "6543", "dbname": "shop"}),
        ("jdbc:postgresql://db/shop", {"host": "db", "port": "5432", "dbname": "shop"}),
        ("jdbc:postgresql://a:1,[::1]:2,b/x", {"host": "a,::1,b", "port": "1,2,5432", "dbname": "x"}),
        ("jdbc:postgresql:shop", {"host": "localhost", "dbname": "shop"}),
        ("jdbc:postgresql:/", {"host": "localhost"}),
        (
            "jdbc:postgresql://db/my%20shop?user=me&password=a%26b",
            {"dbname": "my shop", "user": "me", "password": "a&b"},
        ),
        ("jdbc:postgresql://db/x?ssl=true", {"sslmode": "verify-full"}),
        ("jdbc:postgresql://db/x?sslmode=require&connectTimeout=3", {"sslmode": "require", "connect_timeout": "3"}),
        ("jdbc:postgresql://db/x?currentSchema=sales", {"options": "-csearch_path=sales"}),
        ("jdbc:postgresql://db/x?targetServerType=primary", {"target_session_attrs": "read-write"}),
        ("jdbc:postgresql://db/x?reWriteBatchedInserts=true&stringtype=unspecified", {"dbname": "x"}),
    ],
)
def test_urls_of_postgresql(url: str, wanted: dict[str, str]) -> None:
    found = settings(url)
    assert {key: found[key] for key in wanted} == wanted


def test_user_and_password_given_apart() -> None:
    found = settings("jdbc:postgresql://db/x?user=other&password=other", "me", "s3cret!")
    assert (found["user"], found["password"]) == ("me", "s3cret!")


def test_urls_of_sqlite() -> None:
    assert database_of("jdbc:sqlite:/tmp/a.db", None, None, "org.sqlite.JDBC") == SqliteDatabase("/tmp/a.db")
    assert database_of("jdbc:sqlite:a.db", None, None, None) == SqliteDatabase(os.path.abspath("a.db"))


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("jdbc:mysql://root:Geh3im@db/x", "jdbc:mysql:"),
        ("postgresql://me:Geh3im@db/x", "postgresql:"),
        ("jdbc:sqlite::memory:", "memory"),
        ("jdbc:sqlite:", "memory"),
        ("jdbc:sqlite:a.db?cache=shared", "options"),
        ("jdbc:postgresql://db/x?password=Geh3im&prepareThreshold=0", "prepareThreshold"),
        ("jdbc:postgresql://db/x?password=Geh3im&targetServerType=secondary", "targetServerType"),
    ],
)
def test_what_is_not_supported_is_named(url: str, named: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=named) as caught:
        database_of(url, None, None, None)
    assert "Geh3im" not in str(caught.value)


def test_a_driver_that_is_not_the_urls() -> None:
    with pytest.raises(ConfigurationError, match=r"com\.mysql\.jdbc\.Driver .* org\.postgresql\.Driver"):
        database_of("jdbc:postgresql://db/x", None, None, "com.mysql.jdbc.Driver")


def test_psycopg_comes_with_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentSetupError, match=r"pip install 'beadline\[postgres\]'"):
        database_of("jdbc:postgresql://db/x", None, None, None)
    with pytest.raises(EnvironmentSetupError, match=r"pip install 'beadline\[postgres\]'"):
        Server.at("postgresql://db/x")
    database_of("jdbc:sqlite:a.db", None, None, None)


def test_nothing_shows_the_password() -> None:
    database: Any = database_of("jdbc:postgresql://db/x?password=Geh3im", "me", "Geh3imer", None)
    assert "Geh3im" not in repr(database) + str(database) + database.label
