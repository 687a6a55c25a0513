"""Whether a log is still the one that a position was taken from.

An offset means something in one log only. A topic that is deleted and made again has another id. A partition whose log
was cut off, because a replica that had not got everything became its leader, has another leader epoch: of each epoch
a broker knows up to where its records go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # of topics that were made before topics had ids
# Brokers that don't know ids, topics that are gone, and users who may not ask.
_UNTOLD = (
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_TOPIC_ID",
    "TOPIC_AUTHORIZATION_FAILED",
    "UNSUPPORTED_VERSION",
    "_UNSUPPORTED_FEATURE",
)


class TopicIds:
    """Asks for the ids of topics, over a connection of its own."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        from confluent_kafka.admin import AdminClient

        configured: dict[str, Any] = {**settings, "log_level": 0, "error_cb": _ignore}
        self._client: Any = AdminClient(configured)

    def of(self, topics: Iterable[str], seconds: float) -> dict[str, str]:
        """The ids of topics, as far as brokers tell them.

        :raises KafkaException: brokers don't answer
        """
        from confluent_kafka import KafkaException, TopicCollection

        names, found = sorted(set(topics)), {}
        asked = self._client.describe_topics(TopicCollection(names), request_timeout=seconds) if names else {}
        for name, future in asked.items():
            try:
                id = str(future.result().topic_id)
            except KafkaException as error:
                if error.args[0].name() not in _UNTOLD:
                    raise
                continue
            if id != _NO_ID:
                found[name] = id
        return found


def _ignore(error: Any) -> None:
    """What goes wrong is told by the answers."""
