"""Sources that log in, and sources that are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beadline.connectors.kafka.consumers import consumers
from beadline.datastream.connectors.kafka import KafkaSourceBuilder
from beadline.errors import ConfigurationError
from tests.connectors.kafka.reading import builder, new_topic, read_all, write
from tests.connectors.kafka.test_secrets import MODULE, PASSWORD, Guarded

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker() -> Iterator[Guarded]:
    with Guarded() as server:
        yield server
    consumers.close()


def logging_in(broker: Guarded, topic: str, password: str) -> KafkaSourceBuilder:
    return builder(broker, topic).set_properties(
        {
            "bootstrap.servers": broker.guarded,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{MODULE} username="ann" password="{password}";',
            "default.api.timeout.ms": "20000",
        }
    )


def test_driver_and_tasks_log_in(broker: Guarded) -> None:
    topic = new_topic(broker)
    write(broker, topic, range(5))
    assert read_all(logging_in(broker, topic, PASSWORD)) == ["0", "1", "2", "3", "4"]


def test_a_wrong_password_is_told_at_once_and_not_shown(broker: Guarded) -> None:
    topic = new_topic(broker)
    made = logging_in(broker, topic, "not-the-word")
    with pytest.raises(ConfigurationError, match=r"refuses.*uthentication failed") as caught:
        read_all(made)
    assert "not-the-word" not in str(caught.value)
    assert "not-the-word" not in repr(made.build()._reading)
