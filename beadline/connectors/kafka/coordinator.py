"""Ends and looks at transactions of any process, through kafka-python's admin client.

A broker ends a transaction for whoever knows its id, producer id and epoch, on any connection. No public method of any
Python client sends that request for a transaction that another process began, so this module does it with names that
are private to kafka-python. They are all here, and :func:`_check_names` looks for each of them before the first use.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from beadline.connectors.kafka.admin_settings import admin_settings
from beadline.errors import ConfigurationError, EnvironmentSetupError

_LOG = logging.getLogger("beadline")
_Answer = TypeVar("_Answer")

# How long a broker may be away before a request is given up, and how long to wait between two tries.
PATIENCE = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_BOOTSTRAP = 5.0

# At level DEBUG these loggers of kafka-python tell every byte that is sent, passwords too.
_TALKATIVE = ("kafka.admin", "kafka.net", "kafka.protocol")

# With version 5 the broker would raise the epoch whenever a transaction ends, and a repeated commit would look fenced.
_END_TXN_VERSION = 3
_INIT_PRODUCER_ID_VERSION = 4


class Described(NamedTuple):
    """What a broker knows of a transactional id. Times are in milliseconds; ``started`` is -1 if none is open."""

    state: str
    producer_id: int
    epoch: int
    timeout: int
    started: int
    partitions: list[str]

    @property
    def committed(self) -> bool:
        return self.state in ("PrepareCommit", "CompleteCommit")

    @property
    def aborted(self) -> bool:
        return self.state in ("PrepareAbort", "CompleteAbort", "PrepareEpochFence", "Dead")


class Listed(NamedTuple):
    """One transaction of a cluster."""

    id: str
    state: str
    producer_id: int


class Coordinator:
    """The transaction coordinators of a cluster. It may be used by several threads.

    Whatever passes by itself is tried again for ``patience`` seconds; then there is an ``OSError``.
    """

    def __init__(self, config: Mapping[str, Any], patience: float = PATIENCE) -> None:
        _check_names()
        self._servers = str(config.get("bootstrap.servers", ""))
        self._settings = {**admin_settings(config), "bootstrap_timeout_ms": int(1000 * min(patience, _BOOTSTRAP))}
        self._patience = patience
        self._client: Any = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Coordinator of the transactions at {self._servers}>"

    # -- requests

    def end(self, id: str, producer_id: int, epoch: int, commit: bool) -> bool:
        """Commit or abort. True if it is done, now or since earlier; False if the broker refuses: ask
        :meth:`describe` why."""
        from kafka.errors import (
            InvalidProducerEpochError,
            InvalidProducerIdMappingError,
            InvalidTxnStateError,
            ProducerFencedError,
            UnknownProducerIdError,
        )
        from kafka.protocol.producer.transaction import EndTxnRequest

        request = EndTxnRequest(
            transactional_id=id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commit,
            max_version=_END_TXN_VERSION,
        )
        try:
            self._retried(
                lambda client: _ask(client, id, request), id, f"{'commit' if commit else 'abort'} transaction {id}"
            )
        except (
            InvalidProducerEpochError,
            InvalidProducerIdMappingError,
            InvalidTxnStateError,
            ProducerFencedError,
            UnknownProducerIdError,
        ) as refusal:
            _LOG.debug("the broker does not end %s: %s", id, refusal)
            return False
        return True

    def fence(self, id: str) -> None:
        """Whoever writes under this id can't any more, and what it has open is aborted."""
        from kafka.protocol.producer.transaction import InitProducerIdRequest

        request = InitProducerIdRequest(
            transactional_id=id,
            transaction_timeout_ms=1000,
            producer_id=-1,
            producer_epoch=-1,
            max_version=_INIT_PRODUCER_ID_VERSION,
        )
        self._retried(lambda client: _ask(client, id, request), id, f"fence the writer of transaction {id}")

    def describe(self, id: str) -> Described | None:
        """What the broker knows of this id; None if it does not know it."""
        from kafka.errors import TransactionalIdNotFoundError

        try:
            found = self._retried(lambda client: client.describe_transactions([id]), id, f"look at transaction {id}")
        except TransactionalIdNotFoundError:
            return None
        told = found[id]
        return Described(
            str(told.state.value),
            told.producer_id,
            told.producer_epoch,
            told.transaction_timeout_ms,
            told.transaction_start_time_ms,
            sorted(f"{place.topic}-{place.partition}" for place in told.topic_partitions),
        )

    def list(self, states: list[str] | None = None) -> list[Listed]:
        """All transactions of the cluster, or those in one of these states, sorted by their ids."""
        answers = self._retried(lambda client: client.list_transactions(state_filters=states), "", "list transactions")
        listed = [item for answer in answers.values() for item in answer]
        return sorted(Listed(item.transactional_id, str(item.state.value), item.producer_id) for item in listed)

    def longest_timeout(self) -> int | None:
        """The broker's ``transaction.max.timeout.ms``; None if this client may not see it."""
        from kafka.admin import ConfigResource, ConfigResourceType
        from kafka.errors import AuthorizationError

        name = "transaction.max.timeout.ms"

        def asked(client: Any) -> Any:
            broker = next(iter(client._manager.cluster.brokers()))
            place = ConfigResource(ConfigResourceType.BROKER, str(broker.node_id), [name])
            return client.describe_configs([place], config_filter="all")

        try:
            answer = self._retried(asked, "", f"read {name}")
        except AuthorizationError:
            return None
        return _value_of(answer, name)

    def close(self) -> None:
        """Let go of the connections; the next request makes new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):
                client.close()

    # -- connections and retries

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _connect(self._settings)
            return self._client

    def _retried(self, request: Callable[[Any], _Answer], id: str, what: str) -> _Answer:
        from kafka.errors import AuthorizationError, KafkaError, SaslAuthenticationFailedError

        deadline, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            try:
                client = self._connected()
                try:
                    return request(client)
                finally:
                    # A coordinator may move; and an id that is ended is not asked for again.
                    client._manager.cluster._coordinators.pop((_key_type(), id), None)
            except SaslAuthenticationFailedError as error:
                raise ConfigurationError(f"Can't {what}: {self._servers} refuses the log-in: {error}") from None
            except AuthorizationError as error:
                if what.startswith("read "):
                    raise
                raise ConfigurationError(
                    f"Can't {what} at {self._servers}: {error}. Give the user of this job the right to describe and "
                    "write under its transactional ids."
                ) from None
            except (KafkaError, OSError, RuntimeError) as error:
                if not _passes(error):
                    raise
                if time.monotonic() + pause > deadline:
                    raise OSError(
                        f"Could not {what} within {self._patience:g} s: {self._servers} answers with "
                        f"{type(error).__name__}: {error}"
                    ) from error
                _LOG.debug("can't %s yet (%s), trying again", what, error)
                if _connection_is_broken(error):
                    self.close()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _passes(error: Exception) -> bool:
    """Whether it may be different in a moment."""
    from kafka.errors import BrokerNotAvailableError, KafkaError, UnknownBrokerIdError, UnknownError

    if isinstance(error, KafkaError):
        return error.retriable or isinstance(error, (BrokerNotAvailableError, UnknownBrokerIdError, UnknownError))
    return True


def _connection_is_broken(error: Exception) -> bool:
    """A client that has lost all brokers finds them again only slowly: a new one is quicker."""
    from kafka.errors import BrokerResponseError, KafkaError

    return not isinstance(error, BrokerResponseError) if isinstance(error, KafkaError) else True


def _value_of(answer: Any, name: str) -> int | None:
    for resources in answer.values() if isinstance(answer, dict) else answer:
        for values in resources.values():
            if name in values:
                found = values[name]
                return int(found["value"] if isinstance(found, dict) else found)
    return None


# -- kafka-python's private names


def _key_type() -> Any:
    from kafka.protocol.metadata import CoordinatorType

    return CoordinatorType.TRANSACTION


def _ask(client: Any, id: str, request: Any) -> Any:
    """Send a request to the coordinator of this id, and raise what it answers with."""
    from kafka.errors import NoError, for_code

    async def sent() -> Any:
        node = await client._find_coordinator_id(id, key_type=_key_type())
        return await client._manager.send(request, node_id=node)

    answer = client._manager.run(sent)
    error = for_code(answer.error_code)
    if error is not NoError:
        raise error(f"{type(request).__name__} for {id}")
    return answer


def _connect(settings: Mapping[str, Any]) -> Any:
    from kafka import KafkaAdminClient

    client = KafkaAdminClient.__new__(KafkaAdminClient)
    try:
        client.__init__(**settings)
    except BaseException:
        # It has a thread by now, and its own close() does nothing for a client that is half made.
        with contextlib.suppress(Exception):
            client._client.close()
            client._net.stop()
        raise
    missing = [name for name in ("run", "send") if not callable(getattr(client._manager, name, None))]
    cluster = client._manager.cluster
    if missing or not isinstance(getattr(cluster, "_coordinators", None), dict):
        client.close()
        raise _incompatible([f"_manager.{name}" for name in missing] or ["_manager.cluster._coordinators"])
    return client


def _check_names() -> None:
    """Before anything is sent: does this kafka-python have what this module uses?"""
    client = _library()
    wanted = ("_find_coordinator_id", "describe_transactions", "list_transactions", "describe_configs")
    missing = [name for name in wanted if not callable(getattr(client, name, None))]
    finds = getattr(client, "_find_coordinator_id", None)
    if finds is not None and "key_type" not in inspect.signature(finds).parameters:
        missing.append("_find_coordinator_id(key_type=)")
    if missing:
        raise _incompatible(missing)


def _library() -> Any:
    """Import everything that is used here; gives the class of the client."""
    try:
        with warnings.catch_warnings():
            # It reads its own files in a way that Python 3.11 and 3.12 call deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            import kafka
    except ImportError:
        raise EnvironmentSetupError(
            "Transactions of Kafka need kafka-python: pip install 'beadline[kafka]' (here and on the workers)."
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from kafka.admin import ConfigResource, ConfigResourceType  # noqa: F401
            from kafka.errors import for_code  # noqa: F401
            from kafka.protocol.metadata import CoordinatorType  # noqa: F401
            from kafka.protocol.producer.transaction import EndTxnRequest, InitProducerIdRequest  # noqa: F401
    except ImportError as error:
        raise _incompatible([str(error)]) from None
    for name in _TALKATIVE:
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.WARNING)
    return kafka.KafkaAdminClient


def _incompatible(missing: list[str]) -> EnvironmentSetupError:
    import kafka

    return EnvironmentSetupError(
        f"kafka-python {kafka.__version__} is incompatible: it has no {', '.join(missing)}. Exactly-once delivery to "
        "Kafka needs kafka-python 3.0 or a later 3.x: pip install 'kafka-python>=3.0,<4'."
    )


# -- one for each process and cluster

_KNOWN: dict[tuple[int, frozenset[tuple[str, str]]], Coordinator] = {}
_KNOWN_LOCK = threading.Lock()


def coordinator_of(config: Mapping[str, Any]) -> Coordinator:
    """The coordinator with these settings that this process has. A forked process makes its own."""
    key = os.getpid(), frozenset((name, str(value)) for name, value in config.items())
    with _KNOWN_LOCK:
        if key not in _KNOWN:
            _KNOWN[key] = Coordinator(config)
        return _KNOWN[key]


def close_coordinators() -> None:
    """Let go of all connections of this process: a client that is left alone when its broker ends goes on trying."""
    with _KNOWN_LOCK:
        own = [_KNOWN.pop(key) for key in list(_KNOWN) if key[0] == os.getpid()]
    for coordinator in own:
        coordinator.close()
