"""A PostgreSQL server as connectors use it: sessions that are kept, errors that say what to do, retries.

The password is in the settings and nowhere else: not in texts, not in what is shown of an object.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from beadline.connectors.postgres.sessions import close, idle_session, keep
from beadline.errors import ConfigurationError, EnvironmentSetupError

_LOG = logging.getLogger("beadline")
_PATIENCE = 30.0
_CONNECT_SECONDS = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
# Texts of one form, whatever the server's settings are: ranges of a source are kept as text.
_SESSION = "SET DateStyle = ISO; SET TimeZone = UTC; SET IntervalStyle = postgres; SET extra_float_digits = 1"
# Waiting helps: connections that broke, a server that starts or stops, is full, or had to choose between two sessions.
_PASSING = ("08", "57P01", "57P02", "57P03", "57P05", "53300", "40001", "40P01")
# No code comes with a refused connection, only a text. These don't get better by waiting.
_HOPELESS = ("password authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry")

T = TypeVar("T")


def require_psycopg() -> None:
    """It comes with an extra that need not be installed."""
    if importlib.util.find_spec("psycopg") is None:
        raise EnvironmentSetupError(
            "PostgreSQL needs the package psycopg: pip install 'beadline[postgres]' where the job is started and on "
            "all workers"
        )


@dataclass(frozen=True, repr=False)
class Server:
    """Where a database is, and how to get in.

    :ivar settings: names and values as libpq has them, the password among them
    :ivar patience: seconds for which something that may pass is tried again
    """

    settings: tuple[tuple[str, str], ...]
    patience: float = _PATIENCE

    @staticmethod
    def at(url: str, user: str | None = None, password: str | None = None) -> Server:
        """The server of a URL, ``postgresql://user:password@host:port/database?option=…``, or of settings in libpq's
        form, ``host=… dbname=…``."""
        require_psycopg()
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        given: dict[str, Any] = {key: value for key, value in (("user", user), ("password", password)) if value}
        try:
            settings = conninfo_to_dict(url, **given)
        except psycopg.Error:
            # The error quotes what it can't read, and there may be a password in it.
            raise ConfigurationError(
                "the PostgreSQL URL can't be read. Its form is postgresql://user@host:5432/database?option=value, with "
                "special characters as %XX; the text is not shown, as it may hold a password"
            ) from None
        return Server(tuple(sorted((key, str(value)) for key, value in settings.items() if value is not None)))

    def __repr__(self) -> str:
        return f"<PostgreSQL {self.label}>"

    @property
    def label(self) -> str:
        """The URL without the password and the options, for people."""
        known = dict(self.settings)
        user = f"{quote(known['user'])}@" if "user" in known else ""
        host = known.get("host") or known.get("hostaddr") or ""
        port = f":{known['port']}" if "port" in known else ""
        return f"postgresql://{user}{host}{port}/{known.get('dbname', '')}"

    def hidden(self, text: str) -> str:
        """A text without the password, should some message have it after all."""
        password = dict(self.settings).get("password", "")
        for secret in {password, quote(password), quote(password, safe="")}:
            if len(secret) > 3:
                text = text.replace(secret, "***")
        return text

    # -- sessions

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A connection in autocommit mode, for this thread alone. If an error leaves the block, it is closed, which
        ends its transaction."""
        connection = idle_session(self.settings) or self._connect()
        try:
            yield connection
        except BaseException:
            close(connection)
            raise
        keep(self.settings, connection)

    def _connect(self) -> Any:
        """A new connection. A server that does not answer is asked again for a while."""
        return self._patiently("connecting", self._connect_once)

    def _connect_once(self) -> Any:
        require_psycopg()
        import psycopg
        from psycopg.types.json import JsonbDumper

        defaults: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, "application_name": "beadline"}
        connection = psycopg.connect(autocommit=True, prepare_threshold=None, **{**defaults, **dict(self.settings)})
        connection.adapters.register_dumper(dict, JsonbDumper)
        try:
            connection.execute(_SESSION)
        except BaseException:
            close(connection)
            raise
        return connection

    # -- trouble

    def retrying(self, what: str, act: Callable[[Any], T]) -> T:
        """Do something that may be done twice, in a session; if it meets what may pass, again in a new one.

        :param what: for people: "committing …"
        """

        def once() -> T:
            connection = idle_session(self.settings) or self._connect_once()
            try:
                result = act(connection)
            except BaseException:
                close(connection)
                raise
            keep(self.settings, connection)
            return result

        return self._patiently(what, once)

    def _patiently(self, what: str, act: Callable[[], T]) -> T:
        import psycopg

        deadline = time.monotonic() + self.patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return act()
            except psycopg.Error as error:
                if not passes(error) or time.monotonic() + pause > deadline:
                    raise self.problem(what, error) from None
                if pause == _FIRST_PAUSE:
                    _LOG.warning("%s, trying again for %.0f s", self.problem(what, error), self.patience)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    @contextmanager
    def explained(self, what: str) -> Iterator[None]:
        """Errors of the database as those of a file system, which the engine knows."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self.problem(what, error) from None

    def problem(self, what: str, error: Any) -> Exception:
        """What is raised for an error of the database: one that the set-up is to blame for, or one that may pass."""
        text = f"{what} at {self.label} failed: {self.hidden(said(error))}"
        if _hopeless(error):
            return ConfigurationError(f"{text}. Look at user, password, host and database in the URL")
        return OSError(text)


def said(error: Any) -> str:
    """What the server says, on one line, with its detail and hint."""
    diagnosis = error.diag
    parts = (diagnosis.message_primary or str(error), diagnosis.message_detail, diagnosis.message_hint)
    found = ". ".join(part.strip().rstrip(".") for part in parts if part)
    code = f" ({error.sqlstate})" if error.sqlstate else ""
    return " ".join(found.split()) + code


def passes(error: Any) -> bool:
    """Whether waiting may help."""
    import psycopg

    if error.sqlstate is not None:
        return str(error.sqlstate).startswith(_PASSING)
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and not _hopeless(error)


def _hopeless(error: Any) -> bool:
    return error.sqlstate is None and any(text in str(error) for text in _HOPELESS)
