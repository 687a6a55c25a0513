"""JDBC URLs, as PostgreSQL's and SQLite's drivers read them."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, unquote

from beadline.connectors.jdbc.databases import Database, PostgresDatabase, SqliteDatabase
from beadline.connectors.postgres.server import Server, require_psycopg
from beadline.errors import ConfigurationError, UnsupportedFeatureError

_POSTGRES, _SQLITE = "jdbc:postgresql:", "jdbc:sqlite:"
_DRIVERS = {_POSTGRES: "org.postgresql.Driver", _SQLITE: "org.sqlite.JDBC"}
# Names of the Java driver, and those of libpq.
_SAME = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "options": "options",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
}
# With these values they ask for what is done anyway.
_AS_IT_IS = {
    "stringtype": ("unspecified",),  # texts take the type of the column
    "reWriteBatchedInserts": ("true", "false"),  # rows are sent in batches
    "tcpKeepAlive": ("true",),
    "autosave": ("never",),
}
_TARGETS = {"any": "any", "primary": "read-write", "master": "read-write"}


def database_of(url: str, user: str | None, password: str | None, driver: str | None) -> Database:
    """The database of a URL. Messages never show all of it: it may hold a password."""
    scheme = next((known for known in _DRIVERS if url.startswith(known)), None)
    if scheme is None:
        named = ":".join(url.split(":")[:2]) if url.startswith("jdbc:") else url.split(":")[0]
        raise UnsupportedFeatureError(
            f"JdbcSink writes to jdbc:postgresql://… and jdbc:sqlite:…; {named}: is not supported by Beadline"
        )
    if driver is not None and driver != _DRIVERS[scheme]:
        raise ConfigurationError(
            f"the driver {driver} is not the one for {scheme}, which is {_DRIVERS[scheme]}. Beadline needs no Java "
            "driver: leave with_driver_name() out"
        )
    if scheme == _SQLITE:
        return _sqlite(url.removeprefix(_SQLITE))
    require_psycopg()
    return PostgresDatabase(_postgres(url.removeprefix(_POSTGRES), user, password))


def _sqlite(rest: str) -> Database:
    path, _, options = rest.partition("?")
    if path in ("", ":memory:") or path.startswith("file:") or options:
        raise UnsupportedFeatureError(
            f"JdbcSink takes jdbc:sqlite:/path/of/a/file, got jdbc:sqlite:{rest}. Nobody would see a database in "
            "memory, and options are not supported"
        )
    return SqliteDatabase(os.path.abspath(path))


def _postgres(rest: str, user: str | None, password: str | None) -> Server:
    """``//host:port,host:port/database?name=value``; host and port may be missing, and the database too."""
    place, _, query = rest.partition("?")
    hosts, _, database = place.removeprefix("//").partition("/") if place.startswith("//") else ("", "", place)
    settings: dict[str, str] = {}
    if hosts:
        pairs = [_host_and_port(one) for one in hosts.split(",")]
        settings["host"] = ",".join(host for host, _ in pairs)
        settings["port"] = ",".join(port for _, port in pairs)
    else:
        settings["host"] = "localhost"
    if database.strip("/"):
        settings["dbname"] = unquote(database.strip("/"))
    for name, value in parse_qsl(query, keep_blank_values=True):
        settings.update(_translated(name, value))
    settings.update({key: value for key, value in (("user", user), ("password", password)) if value})
    return Server(tuple(sorted(settings.items())))


def _host_and_port(text: str) -> tuple[str, str]:
    if text.startswith("["):  # an IPv6 address
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":") or "5432"
    host, _, port = text.partition(":")
    return host or "localhost", port or "5432"


def _translated(name: str, value: str) -> dict[str, str]:
    if name in _SAME:
        return {_SAME[name]: value}
    if name == "ssl":
        # The Java driver verifies the server when ssl alone is given.
        return {"sslmode": "verify-full"} if value.lower() in ("", "true") else {"sslmode": "prefer"}
    if name == "currentSchema":
        return {"options": f"-csearch_path={value}"}
    if name == "targetServerType" and value in _TARGETS:
        return {"target_session_attrs": _TARGETS[value]}
    if value in _AS_IT_IS.get(name, ()):
        return {}
    raise UnsupportedFeatureError(
        f"the option {name} of a jdbc:postgresql: URL is not supported by Beadline, at least not with this value. "
        f"Leave it out; known are {', '.join(sorted([*_SAME, *_AS_IT_IS, 'ssl', 'currentSchema', 'targetServerType']))}"
    )
