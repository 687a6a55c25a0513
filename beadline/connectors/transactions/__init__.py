"""Sinks that write to systems outside: in transactions that a checkpoint commits, or to logs that are appended to."""

from beadline.connectors.transactions.contract import Encoder, Entry, Fate, Log, Transactions
from beadline.connectors.transactions.sink import LogSink, TransactionalSink

__all__ = ["Encoder", "Entry", "Fate", "Log", "LogSink", "TransactionalSink", "Transactions"]
