"""A SQL statement for each record: the names of ``pyflink.datastream.connectors.jdbc``."""

from __future__ import annotations

from beadline.api.sinks import SinkFunction
from beadline.common.typeinfo import RowTypeInfo, TypeInformation
from beadline.connectors.jdbc import PostgresDatabase, StatementLog, ToParameters, check_fields, count, database_of
from beadline.connectors.sink import StagedSink
from beadline.connectors.transactions import LogSink
from beadline.errors import ConfigurationError

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]


class JdbcConnectionOptions:
    """Where the database is. The password appears in no message."""

    def __init__(self, builder: JdbcConnectionOptions.JdbcConnectionOptionsBuilder) -> None:
        self._url = builder._url
        self._driver = builder._driver
        self._user = builder._user
        self._password = builder._password

    def get_db_url(self) -> str | None:
        return self._url

    def get_driver_name(self) -> str | None:
        return self._driver

    def get_user_name(self) -> str | None:
        return self._user

    def get_password(self) -> str | None:
        return self._password

    class JdbcConnectionOptionsBuilder:
        """Sets up :class:`JdbcConnectionOptions`."""

        def __init__(self) -> None:
            self._url: str | None = None
            self._driver: str | None = None
            self._user: str | None = None
            self._password: str | None = None

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """``jdbc:postgresql://host:port/database`` or ``jdbc:sqlite:path``."""
            self._url = url
            return self

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Not needed: it must be the one that belongs to the URL."""
            self._driver = driver_name
            return self

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            self._user = user_name
            return self

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            self._password = password
            return self

        def build(self) -> JdbcConnectionOptions:
            return JdbcConnectionOptions(self)


class JdbcExecutionOptions:
    """How many rows go to the database at a time."""

    def __init__(self, batch_interval_ms: int, batch_size: int, max_retries: int) -> None:
        self._batch_interval_ms = batch_interval_ms
        self._batch_size = batch_size
        self._max_retries = max_retries

    def get_batch_interval_ms(self) -> int:
        return self._batch_interval_ms

    def get_batch_size(self) -> int:
        return self._batch_size

    def get_max_retries(self) -> int:
        return self._max_retries

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        return JdbcExecutionOptions.Builder()

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        return JdbcExecutionOptions.Builder().build()

    class Builder:
        """Sets up :class:`JdbcExecutionOptions`, with Flink's defaults."""

        def __init__(self) -> None:
            self._batch_interval_ms = 0
            self._batch_size = 5000
            self._max_retries = 3

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """The most rows in one batch, which is one transaction."""
            self._batch_size = _at_least(1, size, "batch size")
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Has no effect: rows are written whenever a step is sealed, also those that don't fill a batch."""
            self._batch_interval_ms = _at_least(0, interval_ms, "batch interval")
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """How often a batch is tried again when the connection is lost or the database is busy."""
            self._max_retries = _at_least(0, max_retries, "number of retries")
            return self

        def build(self) -> JdbcExecutionOptions:
            return JdbcExecutionOptions(self._batch_interval_ms, self._batch_size, self._max_retries)


def _at_least(least: int, value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"the {what} of JdbcExecutionOptions is a whole number from {least} on, got {value!r}")
    return value


class JdbcSink(SinkFunction):
    """Executes a SQL statement for each row, at least once: ``stream.add_sink(JdbcSink.sink(…))``.

    Rows go to the database when their step is sealed. For exactly-once there is
    :class:`~beadline.datastream.connectors.postgres.PostgresSink`.
    """

    def __init__(self, log: StatementLog, type_info: RowTypeInfo) -> None:
        self._log = log
        self._type = type_info

    def _make_sink(self, type_info: TypeInformation) -> StagedSink:
        return LogSink(self._log, ToParameters(self._type))

    @staticmethod
    def sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """A sink for rows of a type: its fields are the values of the statement's question marks, in order."""
        options = jdbc_connection_options
        if options._url is None:
            raise ConfigurationError(
                "JdbcConnectionOptions needs with_url('jdbc:postgresql://host:port/database') or "
                "with_url('jdbc:sqlite:path')"
            )
        database = database_of(options._url, options._user, options._password, options._driver)
        fields = check_fields(type_info, count(sql), arrays=isinstance(database, PostgresDatabase))
        execution = jdbc_execution_options or JdbcExecutionOptions.defaults()
        return JdbcSink(StatementLog(database, sql, execution._batch_size, execution._max_retries), fields)
