"""PostgreSQL: sinks that write each row once, and a source that reads a table by a growing column."""

from beadline.connectors.postgres.bookkeeping import Bookkeeping
from beadline.connectors.postgres.log import AppendLog, UpsertLog
from beadline.connectors.postgres.rows import ToRows
from beadline.connectors.postgres.server import Server
from beadline.connectors.postgres.source import PostgresReader, Reading
from beadline.connectors.postgres.table import Table
from beadline.connectors.postgres.transactions import PreparedTransactions

__all__ = [
    "AppendLog",
    "Bookkeeping",
    "PostgresReader",
    "PreparedTransactions",
    "Reading",
    "Server",
    "Table",
    "ToRows",
    "UpsertLog",
]
