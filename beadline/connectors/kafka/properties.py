"""Kafka's properties: from what Java's clients call them to what librdkafka calls them.

Programs for PyFlink set properties of Java's clients. Each is translated, or has no meaning here, which the log
says, or is refused by name: none is taken and forgotten. librdkafka's own names are understood too. Programs often
give one dict to a consumer and a producer, and Kafka's clients pass over what is for the other one: so does this.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from typing import Any, Literal

from beadline.connectors.kafka import security
from beadline.errors import ConfigurationError, UnsupportedFeatureError

Role = Literal["consumer", "producer"]

_LOG = logging.getLogger("beadline.kafka")
_OTHER: dict[Role, Role] = {"consumer": "producer", "producer": "consumer"}

# The same name with the same meaning in both clients.
_COMMON = frozenset(
    {
        "allow.auto.create.topics",
        "bootstrap.servers",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "ssl.cipher.suites",
    }
)
_SAME: dict[Role, frozenset[str]] = {
    "consumer": frozenset({"check.crcs", "fetch.max.bytes", "fetch.min.bytes", "group.id", "isolation.level"}),
    "producer": frozenset(
        {
            "acks",
            "batch.size",
            "compression.type",
            "delivery.timeout.ms",
            "enable.idempotence",
            "linger.ms",
            "max.in.flight.requests.per.connection",
            "request.timeout.ms",
            "retries",
            "transaction.timeout.ms",
        }
    ),
}
_RENAMED: dict[Role, dict[str, str]] = {
    "consumer": {
        "fetch.max.wait.ms": "fetch.wait.max.ms",
        "max.partition.fetch.bytes": "fetch.message.max.bytes",
        "request.timeout.ms": "socket.timeout.ms",
    },
    "producer": {"max.request.size": "message.max.bytes"},
}
# Names of librdkafka's own, for programs that were written with it in mind.
_NATIVE = frozenset(
    {
        "api.version.request",
        "broker.address.family",
        "broker.address.ttl",
        "compression.codec",
        "compression.level",
        "debug",
        "enable.ssl.certificate.verification",
        "fetch.error.backoff.ms",
        "fetch.message.max.bytes",
        "fetch.wait.max.ms",
        "log_level",
        "message.max.bytes",
        "message.timeout.ms",
        "metadata.broker.list",
        "partitioner",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "receive.message.max.bytes",
        "sasl.kerberos.keytab",
        "sasl.kerberos.principal",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.password",
        "sasl.username",
        "socket.keepalive.enable",
        "socket.nagle.disable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "socket.timeout.ms",
        "ssl.ca.certificate.stores",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.crl.location",
        "ssl.curves.list",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.sigalgs.list",
        "topic.metadata.refresh.interval.ms",
    }
)
# What they are about does not exist here: partitions are dealt out by the job and not by a group, records are turned
# into values by schemas and not by the client, there are no metrics of a JVM, and how long to wait is decided here.
_WITHOUT_MEANING: dict[Role, frozenset[str]] = {
    "consumer": frozenset(
        {
            "exclude.internal.topics",
            "flink.disable-metrics",
            "flink.poll-timeout",
            "group.instance.id",
            "group.protocol",
            "group.remote.assignor",
            "heartbeat.interval.ms",
            "internal.leave.group.on.close",
            "key.deserializer",
            "key.deserializer.encoding",
            "max.poll.interval.ms",
            "max.poll.records",
            "partition.assignment.strategy",
            "register.consumer.metrics",
            "session.timeout.ms",
            "value.deserializer",
            "value.deserializer.encoding",
            "zookeeper.connect",  # of consumers older than Kafka 0.9, and still in many programs
        }
    ),
    "producer": frozenset(
        {
            "flink.disable-metrics",
            "key.serializer",
            "max.block.ms",
            "metadata.max.idle.ms",
            "partitioner.adaptive.partitioning.enable",
            "partitioner.availability.timeout.ms",
            "register.producer.metrics",
            "value.serializer",
        }
    ),
}
# What the source itself sees to, and what only says something to the other client: these are no names of a client's.
_ONLY: dict[Role, frozenset[str]] = {
    "consumer": frozenset(
        {
            "auto.commit.interval.ms",
            "auto.offset.reset",
            "client.id.prefix",
            "commit.offsets.on.checkpoint",
            "default.api.timeout.ms",
            "enable.auto.commit",
            "flink.partition-discovery.interval-millis",
            "partition.discovery.interval.ms",
        }
    ),
    "producer": frozenset({"buffer.memory", "partitioner.class", "transactional.id"}),
}
_JVM_METRICS = frozenset(
    {
        "auto.include.jmx.reporter",
        "enable.metrics.push",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    }
)
_JAVA_CLASSES = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "security.providers",
    "ssl.engine.factory.class",
    "interceptor.classes",
    "metric.reporters",
)
_INSTEAD = {
    "partitioner.class": "give the record serializer a partitioner",
    "transactional.id": "use set_transactional_id_prefix(): each transaction has an id of its own",
    "ssl.protocol": "the client takes the best of TLSv1.2 and TLSv1.3 that both sides know",
    "ssl.enabled.protocols": "the client takes the best of TLSv1.2 and TLSv1.3 that both sides know",
    "ssl.provider": "leave it out: the client uses OpenSSL",
    "ssl.keymanager.algorithm": "leave it out: the client uses OpenSSL",
    "ssl.trustmanager.algorithm": "leave it out: the client uses OpenSSL",
}


def as_texts(properties: Mapping[str, Any]) -> dict[str, str]:
    """Properties as Java has them: names and values are texts."""
    texts = {}
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            raise ConfigurationError(
                f"Kafka property {name!r}: names are str, values str or numbers, got {type(value).__name__}."
            )
        texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


def consumer_settings(properties: Mapping[str, Any], own: frozenset[str] = frozenset()) -> dict[str, str]:
    """The settings of a consumer for these properties; the caller sees to its ``own`` ones itself."""
    return client_settings(properties, "consumer", own)


def producer_settings(properties: Mapping[str, Any], own: frozenset[str] = frozenset()) -> dict[str, str]:
    """The settings of a producer for these properties; the caller sees to its ``own`` ones itself."""
    return client_settings(properties, "producer", own)


def client_settings(properties: Mapping[str, Any], role: Role, own: frozenset[str] = frozenset()) -> dict[str, str]:
    """The settings of librdkafka for these properties.

    :param own: properties that the caller sees to
    :raises UnsupportedFeatureError: for a property that can't be translated
    """
    given = {name: value for name, value in as_texts(properties).items() if name not in own}
    made: dict[str, str] = {}
    idle: list[str] = []
    foreign: list[str] = []
    for name, value in given.items():
        if name in security.PROPERTIES:
            continue
        if name in _COMMON or name in _SAME[role] or name in _NATIVE:
            made[name] = value
        elif name in _RENAMED[role]:
            made[_RENAMED[role][name]] = value
        elif name in ("receive.buffer.bytes", "send.buffer.bytes"):
            made[f"socket.{name}"] = "0" if value == "-1" else value  # as the system has it
        elif name == "buffer.memory" and role == "producer":
            made["queue.buffering.max.kbytes"] = str(max(1, _number(name, value) // 1024))
        elif _is_of_the_other(name, role):
            foreign.append(name)
        elif name in _WITHOUT_MEANING[role] or name in _JVM_METRICS or _is_usual(name, value):
            idle.append(name)
        else:
            raise _refused(name, role)
    made.update(security.security_settings({name: given[name] for name in given if name in security.PROPERTIES}))
    if idle:
        _LOG.info("Kafka properties that have no meaning in Beadline, and are left out: %s", ", ".join(sorted(idle)))
    if foreign:
        other = _OTHER[role]
        _LOG.info("Kafka properties of a %s, left out for this %s: %s", other, role, ", ".join(sorted(foreign)))
    return made


def _is_of_the_other(name: str, role: Role) -> bool:
    """Whether only the other client knows this property."""
    other = _OTHER[role]
    theirs = _SAME[other] | _RENAMED[other].keys() | _WITHOUT_MEANING[other] | _ONLY[other]
    return name in theirs and name not in _WITHOUT_MEANING[role] | _ONLY[role]


def _is_usual(name: str, value: str) -> bool:
    """Whether a property asks for what the client does anyway."""
    protocols = {part.strip() for part in value.split(",")}
    return name in ("ssl.protocol", "ssl.enabled.protocols") and protocols <= {"TLS", "TLSv1.2", "TLSv1.3"}


def _refused(name: str, role: Role) -> Exception:
    if name in _INSTEAD:
        return UnsupportedFeatureError(f"Kafka property '{name}' can't be set here: {_INSTEAD[name]}.")
    if name in _JAVA_CLASSES:
        return UnsupportedFeatureError(f"Kafka property '{name}' names classes of Java, which can't run here.")
    known = [*_COMMON, *_SAME[role], *_RENAMED[role], *_NATIVE, *security.PROPERTIES, *_WITHOUT_MEANING[role]]
    near = difflib.get_close_matches(name, known, 1)
    hint = f" Did you mean '{near[0]}'?" if near else " Remove it if the job does not need it."
    return UnsupportedFeatureError(f"Kafka property '{name}' is not known to Beadline's {role}.{hint}")


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigurationError(f"Kafka property '{name}' must be a whole number, got {value!r}.") from None


def number(properties: Mapping[str, str], name: str, default: int) -> int:
    """A property that is a whole number."""
    return _number(name, properties[name]) if name in properties else default


def truth(properties: Mapping[str, str], name: str, default: bool) -> bool:
    """A property that is true or false."""
    value = properties.get(name)
    if value is None:
        return default
    if value.lower() not in ("true", "false"):
        raise ConfigurationError(f"Kafka property '{name}' must be true or false, got {value!r}.")
    return value.lower() == "true"
