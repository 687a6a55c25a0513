"""Real servers to try things and to test with: Apache Kafka and PostgreSQL, started by this process, ended with it.

They listen on loopback only, keep their data in a private folder that goes with them, and need no installation beyond
``pip`` and Maven. ``make services`` starts both and keeps them until Ctrl-C.
"""

from beadline.services.kafka import KafkaServer
from beadline.services.postgres import PostgresServer
from beadline.services.server import Server, ServerMissingError

__all__ = ["KafkaServer", "PostgresServer", "Server", "ServerMissingError"]
