"""What the driver asks brokers: which partitions there are, and how far they go."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beadline.connectors.clients import require_kafka
from beadline.connectors.kafka.identity import TopicIds
from beadline.connectors.kafka.offsets import Partition
from beadline.errors import ConfigurationError, InputError

_LOG = logging.getLogger("beadline.kafka")

# So long one question may take. The job's thread waits for it.
_SECONDS = 5.0
_EARLIEST, _LATEST = -2, -1  # what the protocol asks for instead of a time
_TELL_EVERY_SECONDS = 10.0
# Whatever is wrong with these, waiting does not help.
_REFUSED = {
    "_AUTHENTICATION": "look at the user, the password and the mechanism of the log-in",
    "SASL_AUTHENTICATION_FAILED": "look at the user, the password and the mechanism of the log-in",
    "_SSL": "look at the certificates and at security.protocol",
    "TOPIC_AUTHORIZATION_FAILED": "give the job's user the right to read the topic",
    "GROUP_AUTHORIZATION_FAILED": "give the job's user the right to use the consumer group",
    "CLUSTER_AUTHORIZATION_FAILED": "give the job's user the right to describe the cluster",
}


_UNKNOWN = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC")


class BrokerAway(OSError):
    """A broker does not answer, or can't answer now."""


class Cluster:
    """Answers from brokers. Not to be sent to workers; for one thread.

    :param settings: of librdkafka
    :param patience: no question takes longer than so many seconds
    """

    def __init__(self, settings: Mapping[str, str], patience: float) -> None:
        require_kafka()
        self._settings = dict(settings)
        self._seconds = min(_SECONDS, patience)
        self._clients: dict[str, Any] = {}
        self._isolation = settings.get("isolation.level", "read_uncommitted")
        self._trouble: Any = None
        self._commit_pending = False
        self._ids: TopicIds | None = None
        #: By partition, the leader epoch that came with its last end.
        self.epochs: dict[Partition, int] = {}

    def __repr__(self) -> str:
        return f"<Cluster at {self.servers}>"

    @property
    def servers(self) -> str:
        return self._settings["bootstrap.servers"]

    # -- questions

    def topics(self, names: Iterable[str] | None) -> dict[str, list[int]]:
        """Topics and the numbers of their partitions; without ``names``, all topics that are not Kafka's own."""
        if names is not None:
            return {name: self._partitions_of(name) for name in names}
        found = self._asked(lambda client: client.list_topics(timeout=self._seconds))
        return {name: sorted(topic.partitions) for name, topic in found.topics.items() if not name.startswith("__")}

    def _partitions_of(self, name: str) -> list[int]:
        topic = self._asked(lambda client: client.list_topics(name, timeout=self._seconds)).topics[name]
        if topic.error is not None:
            code = topic.error.name()
            if code in _UNKNOWN:
                raise InputError(f"there is no topic '{name}' at {self.servers}: create it, or correct the name")
            if code == "TOPIC_EXCEPTION":
                raise ConfigurationError(f"'{name}' can't be the name of a topic")
            raise self._problem(topic.error)
        return sorted(topic.partitions)

    def begins(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The first offset that is still there."""
        return self._offsets(partitions, _EARLIEST, self._isolation)

    def ends(self, partitions: Iterable[Partition], read_uncommitted: bool = False) -> dict[Partition, int]:
        """The offset after the last record that may be read: with ``read_committed``, before the first open
        transaction."""
        return self._offsets(partitions, _LATEST, "read_uncommitted" if read_uncommitted else self._isolation)

    def at_time(self, partitions: Iterable[Partition], timestamp: int) -> dict[Partition, int]:
        """The offset of the first record that is not older; the end if there is none."""
        found = self._offsets(partitions, timestamp, self._isolation)
        missing = [partition for partition, offset in found.items() if offset < 0]
        return {**found, **self.ends(missing)} if missing else found

    def _offsets(self, partitions: Iterable[Partition], timestamp: int, isolation: str) -> dict[Partition, int]:
        from confluent_kafka import TopicPartition

        wanted = [TopicPartition(topic, number, timestamp) for topic, number in partitions]
        if not wanted:
            return {}
        answers = self._asked(lambda client: client.offsets_for_times(wanted, timeout=self._seconds), isolation, wanted)
        checked = self._checked(answers)
        if timestamp == _LATEST:
            for answer in answers:
                if answer.leader_epoch is not None and answer.leader_epoch >= 0:
                    self.epochs[Partition(answer.topic, answer.partition)] = answer.leader_epoch
        return checked

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        """What the group has committed; None where it has nothing."""
        from confluent_kafka import TopicPartition

        wanted = [TopicPartition(topic, number) for topic, number in partitions]
        answers = self._checked(
            self._asked(lambda client: client.committed(wanted, timeout=self._seconds), None, wanted)
        )
        return {partition: offset if offset >= 0 else None for partition, offset in answers.items()}

    def _checked(self, answers: list[Any]) -> dict[Partition, int]:
        for answer in answers:
            if answer.error is not None:
                raise self._problem(answer.error, [answer])
        return {Partition(answer.topic, answer.partition): answer.offset for answer in answers}

    # -- whether logs are what they were

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of topics, as far as brokers tell them."""
        from confluent_kafka import KafkaException

        if self._ids is None:
            self._ids = TopicIds({name: value for name, value in self._settings.items() if name != "isolation.level"})
        try:
            return self._ids.of(topics, self._seconds)
        except KafkaException as error:
            raise self._problem(error.args[0]) from None

    def cut_off(self, reached: Mapping[Partition, tuple[int, int]]) -> set[Partition]:
        """The partitions whose log does not go up to an offset in a leader epoch or before it any more: what lies
        there now was written later. The client asks brokers for that when it begins to read."""
        from confluent_kafka import KafkaError, TopicPartition

        if not reached:
            return set()
        consumer = make_consumer(
            {
                "group.id": "beadline",
                "log_level": 0,
                **self._settings,
                "isolation.level": "read_uncommitted",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
                "error_cb": self._in_trouble,
            }
        )
        try:
            consumer.assign(
                [TopicPartition(*at, offset, leader_epoch=epoch) for at, (offset, epoch) in reached.items()]
            )
            left, cut, until = set(reached), set(), time.monotonic() + 2 * self._seconds
            while left:
                message = consumer.poll(0.2)
                if message is None or message.topic() is None:
                    if time.monotonic() > until:
                        raise BrokerAway(
                            f"Kafka at {self.servers} does not tell how far the log of {min(left).name} goes"
                        )
                    continue
                at, error = Partition(message.topic(), message.partition()), message.error()
                if error is not None and error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
                    cut.add(at)
                elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise self._problem(error)
                left.discard(at)
            return cut
        finally:
            consumer.close()

    # -- the group's offsets, for those who watch it

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Tell the group; nobody waits for it, and the job does not depend on it."""
        from confluent_kafka import KafkaException, TopicPartition

        wanted = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        try:
            self._commit_pending = True
            self._client(self._isolation).commit(offsets=wanted, asynchronous=True)
        except KafkaException as error:
            self._commit_pending = False
            _LOG.warning("offsets could not be committed to group '%s': %s", self.group, error.args[0].str())

    @property
    def group(self) -> str | None:
        return self._settings.get("group.id")

    def _committed(self, error: Any, partitions: Any) -> None:
        self._commit_pending = False
        if error is not None:
            _LOG.warning(
                "offsets could not be committed to group '%s': %s. The job goes on from its own checkpoints",
                self.group,
                error.str(),
            )

    def serve(self, seconds: float = 0.0) -> None:
        """Let answers to commits come in; wait up to so long for one that is under way."""
        deadline = time.monotonic() + seconds
        for client in self._clients.values():
            client.poll(0)
            while self._commit_pending and time.monotonic() < deadline:
                client.poll(0.05)

    def close(self) -> None:
        if self._commit_pending:
            self.serve(_SECONDS)
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self._ids = None

    # -- inside

    def _client(self, isolation: str) -> Any:
        if isolation not in self._clients:
            settings = {
                "group.id": "beadline",
                "log_level": 0,  # what goes wrong is told by exceptions and by error_cb
                **self._settings,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "error_cb": self._in_trouble,
                "on_commit": self._committed,
            }
            self._clients[isolation] = make_consumer(settings)
        return self._clients[isolation]

    def _in_trouble(self, error: Any) -> None:
        self._trouble = error

    def _asked(self, question: Any, isolation: str | None = None, about: Sequence[Any] = ()) -> Any:
        from confluent_kafka import KafkaException

        client = self._client(isolation or self._isolation)
        try:
            answer = question(client)
        except KafkaException as error:
            client.poll(0)  # what error_cb has to say
            raise self._problem(error.args[0], about) from None
        self._trouble = None
        return answer

    def _problem(self, error: Any, about: Sequence[Any] = ()) -> Exception:
        where = f" (asked for {_names(about)})" if about else ""
        if error.name() in _UNKNOWN:
            return BrokerAway(f"Kafka at {self.servers} does not know {_names(about)} any more")
        for each in (error, self._trouble):
            if each is not None and each.name() in _REFUSED:
                return ConfigurationError(
                    f"Kafka at {self.servers} refuses: {each.str()}{where}; {_REFUSED[each.name()]}"
                )
        detail = f"{error.str()}; {self._trouble.str()}" if self._trouble is not None else error.str()
        return BrokerAway(f"Kafka at {self.servers} does not answer: {detail}{where}")


def _names(partitions: Sequence[Any]) -> str:
    """Some partitions, for people."""
    names = [f"{each.topic}-{each.partition}" for each in partitions[:3]]
    return ", ".join(names) + (f" or another of {len(partitions)} partitions" if len(partitions) > 3 else "")


def make_consumer(settings: Mapping[str, Any]) -> Any:
    """A consumer of confluent-kafka."""
    require_kafka()
    from confluent_kafka import Consumer, KafkaException

    try:
        return Consumer(dict(settings))
    except KafkaException as error:
        raise ConfigurationError(f"Kafka's client refuses its settings: {error.args[0].str()}") from None


class Patience:
    """How long a broker may be away before that is an error, which the restart strategy decides about."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._told = 0.0

    def away(self, error: BrokerAway) -> None:
        """It did not answer: say so, or give up."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since >= self._seconds:
            self._since = None
            raise InputError(f"{error}. It has been asked for {self._seconds:.0f} s (default.api.timeout.ms)")
        if now - self._told >= _TELL_EVERY_SECONDS:
            self._told = now
            left = self._seconds - (now - self._since)
            _LOG.warning("%s. Trying again for %.0f s (default.api.timeout.ms)", error, left)

    def there(self) -> None:
        """It answered."""
        if self._since is not None:
            self._since, self._told = None, 0.0
            _LOG.warning("Kafka answers again")
