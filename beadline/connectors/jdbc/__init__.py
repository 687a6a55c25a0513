"""Any SQL statement as a sink, for databases that are named by a JDBC URL: PostgreSQL and SQLite."""

from beadline.connectors.jdbc.databases import Database, PostgresDatabase, SqliteDatabase
from beadline.connectors.jdbc.log import StatementLog
from beadline.connectors.jdbc.placeholders import count, for_psycopg
from beadline.connectors.jdbc.urls import database_of
from beadline.connectors.jdbc.values import ToParameters, check_fields

__all__ = [
    "Database",
    "PostgresDatabase",
    "SqliteDatabase",
    "StatementLog",
    "ToParameters",
    "check_fields",
    "count",
    "database_of",
    "for_psycopg",
]
