"""Transactions of Kafka that any process can finish.

Rows are written with confluent-kafka, which is fast. When all are delivered, the broker is asked for the producer's id
and epoch: whoever knows these can end the transaction, and :mod:`~beadline.connectors.kafka.coordinator` does.

An id is used for one transaction and never again. So whatever the broker knows of an id is about that transaction.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beadline.connectors.clients import require_kafka
from beadline.connectors.kafka.coordinator import Coordinator, Described, coordinator_of
from beadline.connectors.kafka.producers import DELIVERY_TIMEOUT, Producing, as_error
from beadline.connectors.kafka.topics import check_topics
from beadline.connectors.transactions import Fate, Transactions
from beadline.errors import BeadlineError, ConfigurationError, TransactionUnknownError

# As long as Flink would have it, if the broker allows that.
LONGEST_TIMEOUT = 3_600_000
# A stock broker's maximum, for one that does not tell.
_USUAL_TIMEOUT = 900_000
_START = 60.0
_ABORT = 10.0


@dataclass(repr=False)
class KafkaTransactions(Transactions):
    """The transactions of a cluster, as a sink uses them.

    :ivar config: settings of librdkafka
    :ivar topics: those that are known beforehand
    :ivar timeout: in milliseconds, after which the broker aborts a transaction; None for as long as the broker allows,
        up to an hour
    """

    config: dict[str, Any]
    topics: tuple[str, ...] = ()
    timeout: int | None = None

    def __repr__(self) -> str:
        return f"<KafkaTransactions at {self.config.get('bootstrap.servers')}>"

    @property
    def coordinator(self) -> Coordinator:
        return coordinator_of(self.config)

    def check(self) -> None:
        asking = Producing(self.config)
        try:
            check_topics(asking, self.topics)
        finally:
            asking.drop()
        longest = self.coordinator.longest_timeout()
        if self.timeout is not None and longest is not None and self.timeout > longest:
            raise ConfigurationError(
                f"The sink's 'transaction.timeout.ms' is {self.timeout}, and the broker at "
                f"{self.config.get('bootstrap.servers')} allows {longest} ('transaction.max.timeout.ms'). Lower the "
                "first, or raise the second. A transaction that times out loses nothing: it is written again."
            )

    def resolved_timeout(self) -> int:
        """In milliseconds."""
        if self.timeout is None:
            # Every task of a job comes here, but each process asks only once.
            self.timeout = min(LONGEST_TIMEOUT, self.coordinator.longest_timeout() or _USUAL_TIMEOUT)
        return self.timeout

    # -- two phases

    def write(self, id: str, batches: Iterator[list[Any]]) -> dict[str, Any]:
        """1. begin a transaction under this id
        2. write all rows, and see that each was delivered
        3. ask the broker who the producer is: that is the handle

        The producer is dropped without being closed: closing would abort. What it wrote stays open until somebody ends
        the transaction, or the broker does for its age.
        """
        producing = self._begin(id)
        try:
            producing.send(batches)
            told = self.coordinator.describe(id)
            if told is None or told.state != "Ongoing":
                raise OSError(f"Transaction {id} is {_state(told)} after its rows were written; it is to be open.")
        except BaseException:
            with contextlib.suppress(Exception):
                producing.producer.abort_transaction(_ABORT)
            raise
        finally:
            producing.drop()
        return {
            "id": id,
            "producer": told.producer_id,
            "epoch": told.epoch,
            "timeout": told.timeout,
            "started": int(time.time() * 1000),
        }

    def _begin(self, id: str) -> Producing:
        require_kafka()
        from confluent_kafka import KafkaException

        timeout = self.resolved_timeout()
        own = {
            "transactional.id": id,
            "transaction.timeout.ms": timeout,
            "message.timeout.ms": min(timeout, int(self.config.get("message.timeout.ms", DELIVERY_TIMEOUT))),
            "enable.idempotence": True,
        }
        producing = Producing({**self.config, **own})
        try:
            producing.producer.init_transactions(_START)
            producing.producer.begin_transaction()
        except KafkaException as error:
            what = f"Transaction {id} could not be begun at {producing.servers}"
            producing.drop()
            raise as_error(error.args[0], what, producing.trouble) from None
        return producing

    def commit(self, handle: Any) -> Fate:
        id, producer_id, epoch = handle["id"], handle["producer"], handle["epoch"]
        if self.coordinator.end(id, producer_id, epoch, commit=True):
            return Fate.COMMITTED
        told = self.coordinator.describe(id)
        if told is None or told.producer_id != producer_id:
            raise _unknown(handle, told)
        if told.committed:
            return Fate.COMMITTED
        # Nobody fences a transaction that was committed, so a later epoch tells that it was aborted: for its age, or by
        # who fenced it.
        if told.aborted or told.epoch > epoch:
            return Fate.ABORTED
        raise _unknown(handle, told)

    def abort(self, handle: Any) -> None:
        id, producer_id, epoch = handle["id"], handle["producer"], handle["epoch"]
        if self.coordinator.end(id, producer_id, epoch, commit=False):
            return
        told = self.coordinator.describe(id)
        if told is not None and told.producer_id == producer_id and told.committed:
            raise BeadlineError(f"Transaction {id} was committed, and can't be aborted any more.")

    # -- what nobody knows of

    def list_open(self, prefix: str) -> list[str]:
        return [listed.id for listed in self.coordinator.list(["Ongoing"]) if listed.id.startswith(prefix)]

    def abort_open(self, id: str) -> None:
        end_stray(self.coordinator, id)


def end_stray(coordinator: Coordinator, id: str) -> bool:
    """Abort a transaction whose handle nobody has, and see to it that its writer can't go on. False if there is nothing
    to abort: it is gone, or was committed.

    1. abort, if it is still open: the broker decides between this and a commit at the same moment
    2. only then fence, which alone would hide that it was committed
    """
    told = coordinator.describe(id)
    if told is None or told.committed:
        return False
    if told.state == "Ongoing" and not coordinator.end(id, told.producer_id, told.epoch, commit=False):
        told = coordinator.describe(id)
        if told is None or told.committed:
            return False
    coordinator.fence(id)
    return True


def _state(told: Described | None) -> str:
    return "unknown to the broker" if told is None else told.state


def _unknown(handle: dict[str, Any], told: Described | None) -> TransactionUnknownError:
    """Nobody can tell what has become of it."""
    age = max(0.0, time.time() - handle["started"] / 1000)
    problem = "has forgotten the id ('transactional.id.expiration.ms', 7 days unless it is set)"
    if told is not None:
        problem = (
            f"knows the id in state {told.state} of producer {told.producer_id}, epoch {told.epoch}, and not of "
            f"producer {handle['producer']}, epoch {handle['epoch']}"
        )
    return TransactionUnknownError(
        f"Nobody can tell whether Kafka transaction {handle['id']} was committed: the broker {problem}. It was written "
        f"{_time(age)} ago with a timeout of {_time(handle['timeout'] / 1000)}"
    )


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds:.0f} s"
