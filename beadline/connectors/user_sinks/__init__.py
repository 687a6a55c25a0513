"""Sinks that programs write themselves, as logs and transactions."""

from beadline.connectors.user_sinks.functions import function_sink
from beadline.connectors.user_sinks.writers import writer_sink

__all__ = ["function_sink", "writer_sink"]
