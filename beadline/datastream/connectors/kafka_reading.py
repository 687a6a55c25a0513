"""Properties of Kafka's consumer that are about the source, and not about its client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beadline.connectors.kafka.offsets import Offsets, Reset
from beadline.connectors.kafka.properties import consumer_settings, number, truth
from beadline.connectors.kafka.source import KafkaReading
from beadline.errors import ConfigurationError

DISCOVERY = "partition.discovery.interval.ms"
OLD_DISCOVERY = "flink.partition-discovery.interval-millis"
CLIENT_ID_PREFIX = "client.id.prefix"
COMMIT = "commit.offsets.on.checkpoint"
AUTO_COMMIT = "enable.auto.commit"
AUTO_COMMIT_INTERVAL = "auto.commit.interval.ms"
RESET = "auto.offset.reset"
TIMEOUT = "default.api.timeout.ms"
ANY_TOPIC = "beadline.accept.any.topic"
_OWN = frozenset({ANY_TOPIC, AUTO_COMMIT, AUTO_COMMIT_INTERVAL, CLIENT_ID_PREFIX, RESET, TIMEOUT})
MINUTE = 60_000


def settings_of(properties: Mapping[str, str], who: str, *own: str) -> dict[str, str]:
    """What the client is told. ``own``: properties that only this kind of source has."""
    if not properties.get("bootstrap.servers"):
        raise ConfigurationError(f"{who}: no broker is named; set 'bootstrap.servers'.")
    settings = consumer_settings(properties, _OWN | set(own))
    if CLIENT_ID_PREFIX in properties:
        settings["client.id"] = properties[CLIENT_ID_PREFIX]
    return settings


def check_group(reading: KafkaReading) -> None:
    needing = [each for each in (reading.start, reading.stop) if each is not None and each.kind == "committed"]
    if "group.id" not in reading.settings and needing:
        raise ConfigurationError(
            "committed offsets are those of a consumer group, and none is named: set 'group.id', or start from "
            "earliest or latest offsets."
        )
    if "group.id" not in reading.settings and reading.auto_commit_seconds is not None:
        raise ConfigurationError(f"{AUTO_COMMIT}=true needs a consumer group: set 'group.id'.")


def without_group(start: Offsets) -> Offsets:
    """Where a consumer of 1.x without a group starts: nothing was committed, so ``auto.offset.reset`` decides."""
    if start.kind == "committed" and start.reset != "none":
        return Offsets(start.reset, start.reset)
    return start


def reset_of(properties: Mapping[str, str]) -> Reset:
    """What ``auto.offset.reset`` says; Kafka's default is the latest offset."""
    value = properties.get(RESET, "latest").lower()
    known: dict[str, Reset] = {
        "earliest": "earliest",
        "smallest": "earliest",
        "latest": "latest",
        "largest": "latest",
        "none": "none",
    }
    if value not in known:
        raise ConfigurationError(f"Kafka property '{RESET}' must be earliest, latest or none, got {value!r}.")
    return known[value]


def auto_commit_of(properties: Mapping[str, str], default: bool) -> float | None:
    interval = number(properties, AUTO_COMMIT_INTERVAL, 5000)
    return interval / 1000 if truth(properties, AUTO_COMMIT, default) else None


def every(milliseconds: int) -> float | None:
    """How often, in seconds; a negative number means never."""
    return milliseconds / 1000 if milliseconds > 0 else None


def keeps_its_type(schema: Any) -> bool:
    """Whether a schema gives values of the type that it declares: Beadline's own do, others may promise too much."""
    return type(schema).__module__.partition(".")[0] == "beadline"
