"""Whether the topics that a sink writes to are there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from beadline.connectors.kafka.producers import Producing, as_error
from beadline.errors import ConfigurationError

# A topic that was just made is unknown, and then without leaders, for a moment.
_PATIENCE = 3.0
_ANSWER = 20.0


def check_topics(producing: Producing, topics: Iterable[str]) -> None:
    """Ask the cluster for these topics. A broker that makes topics when they are asked for makes them now.

    :raises OSError: no broker answers
    :raises ConfigurationError: a topic is not there, or this client may not see it
    """
    _ask(producing, None)
    for topic in topics:
        deadline = time.monotonic() + _PATIENCE
        while (problem := _ask(producing, topic).topics[topic].error) is not None:
            if time.monotonic() > deadline:
                raise ConfigurationError(
                    f"The sink can't write to Kafka topic '{topic}' at {producing.servers}: {problem.str()}. "
                    "Create it, or let the broker create topics (auto.create.topics.enable)."
                )
            time.sleep(0.1)


def _ask(producing: Producing, topic: str | None) -> Any:
    from confluent_kafka import KafkaException

    what = f"No Kafka broker answers at {producing.servers}"
    deadline = time.monotonic() + _ANSWER
    while True:
        try:
            arguments = () if topic is None else (topic,)
            return producing.producer.list_topics(*arguments, timeout=min(_ANSWER, 2.0))
        except KafkaException as error:
            producing.producer.poll(0)  # hears what the connections say
            if producing.locked_out is not None:
                raise as_error(producing.locked_out, f"{producing.servers} refuses the log-in") from None
            if time.monotonic() > deadline:
                raise as_error(error.args[0], what, producing.trouble) from None
