"""Where reading Kafka starts and stops."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from beadline.connectors.kafka.offsets import Offsets, Partition, Reset
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError

__all__ = ["KafkaOffsetResetStrategy", "KafkaOffsetsInitializer", "KafkaTopicPartition"]


class KafkaOffsetResetStrategy(Enum):
    """What to read where a group has committed nothing, or where what is to be read is gone."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class KafkaTopicPartition:
    """A partition of a topic."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition

    def __repr__(self) -> str:
        return f"KafkaTopicPartition({self._topic!r}, {self._partition})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaTopicPartition) and self._plain() == other._plain()

    def __hash__(self) -> int:
        return hash(self._plain())

    def _plain(self) -> Partition:
        return Partition(self._topic, self._partition)


class KafkaOffsetsInitializer:
    """Where reading starts, or stops."""

    def __init__(self, offsets: Offsets) -> None:
        if not isinstance(offsets, Offsets):
            raise UnsupportedFeatureError(
                "KafkaOffsetsInitializer is made by its static methods: earliest(), latest(), timestamp(…), "
                "committed_offsets(…), offsets(…)."
            )
        self._offsets = offsets

    def __repr__(self) -> str:
        return f"<KafkaOffsetsInitializer {self._offsets.kind}>"

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record that is there."""
        return KafkaOffsetsInitializer(Offsets("earliest", "earliest"))

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """After the last record that is there when the job starts."""
        return KafkaOffsetsInitializer(Offsets("latest", "latest"))

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record with this timestamp, in milliseconds, or a later one; the end if there is none."""
        if timestamp < 0:
            raise ConfigurationError(f"KafkaOffsetsInitializer.timestamp({timestamp}): it can't be negative.")
        return KafkaOffsetsInitializer(Offsets("timestamp", "latest", timestamp=timestamp))

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """What the consumer group has committed."""
        return KafkaOffsetsInitializer(Offsets("committed", _reset_of(offset_reset_strategy)))

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets. For other partitions what the group has committed, or as the strategy says."""
        for offset in offsets.values():
            if offset < 0:
                raise ConfigurationError(f"KafkaOffsetsInitializer.offsets(…): {offset} is not an offset.")
        given = {partition._plain(): offset for partition, offset in offsets.items()}
        return KafkaOffsetsInitializer(Offsets("given", _reset_of(offset_reset_strategy), given=given))


def _reset_of(strategy: KafkaOffsetResetStrategy) -> Reset:
    strategies: dict[KafkaOffsetResetStrategy, Reset] = {
        KafkaOffsetResetStrategy.LATEST: "latest",
        KafkaOffsetResetStrategy.EARLIEST: "earliest",
        KafkaOffsetResetStrategy.NONE: "none",
    }
    if strategy not in strategies:
        raise TypeMismatchError(f"a KafkaOffsetResetStrategy is needed, got {strategy!r}")
    return strategies[strategy]
