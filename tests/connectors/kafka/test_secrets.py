"""A broker that wants a log-in: both clients get in, and the password is nowhere to be read."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import beadline
from beadline.connectors.kafka.log import KafkaLog
from beadline.connectors.kafka.transactions import KafkaTransactions
from beadline.datastream.connectors.kafka_sink import FlinkKafkaProducer, KafkaSink
from beadline.errors import ConfigurationError
from beadline.services import KafkaServer
from beadline.services.server import free_port
from tests.connectors.kafka.test_sink import Amount, serializer
from tests.connectors.kafka.topics import make_topic, values

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PASSWORD = "hush-5f1e"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"

JOB = """
    import logging, os, sys
    from beadline.common import SimpleStringSchema, Types
    from beadline.datastream import StreamExecutionEnvironment
    from beadline.datastream.connectors.kafka_sink import (
        DeliveryGuarantee, KafkaRecordSerializationSchema, KafkaSink
    )

    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("beadline.kafka").setLevel(logging.DEBUG)
    servers, topic, guarantee = sys.argv[1:]
    password = os.environ["PASSWORD"]
    env = StreamExecutionEnvironment.get_execution_environment()
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="{password}";'
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_property("security.protocol", "SASL_PLAINTEXT")
        .set_property("sasl.mechanism", "PLAIN")
        .set_property("sasl.jaas.config", jaas)
        .set_property("debug", "all")
        .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee[guarantee])
        .set_transactional_id_prefix("secret")
        .build()
    )
    env.from_collection(["one", "two"], Types.STRING()).sink_to(sink)
    print(repr(sink), vars(sink), env.get_execution_plan())
    env.from_collection(["one", "two"], Types.STRING()).sink_to(sink)
    env.execute("secrets")
"""


class Guarded(KafkaServer):
    """Has a second address, for those who log in."""

    def __init__(self) -> None:
        super().__init__()
        self.guarded_port = free_port()
        own = self._own_settings()
        self._settings.update(
            {
                "listeners": f"{own['listeners']},SASL_PLAINTEXT://127.0.0.1:{self.guarded_port}",
                "advertised.listeners": (
                    f"{own['advertised.listeners']},SASL_PLAINTEXT://127.0.0.1:{self.guarded_port}"
                ),
                "listener.security.protocol.map": (
                    f"{own['listener.security.protocol.map']},SASL_PLAINTEXT:SASL_PLAINTEXT"
                ),
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} user_ann="{PASSWORD}";',
            }
        )

    @property
    def guarded(self) -> str:
        return f"127.0.0.1:{self.guarded_port}"


@pytest.fixture(scope="module")
def broker() -> Iterator[Guarded]:
    with Guarded() as server:
        yield server


def run(folder: Path, broker: Guarded, topic: str, password: str, guarantee: str) -> subprocess.CompletedProcess[str]:
    (folder / "job.py").write_text(textwrap.dedent(JOB), encoding="utf-8")
    settings = {"interval": "100 ms", "dir": str(folder), "externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    options = [part for name, value in settings.items() for part in ("-D", f"execution.checkpointing.{name}={value}")]
    command = [sys.executable, "-m", "beadline.cli.main", "run", "-v", "--engine", "local", *options]
    return subprocess.run(
        [*command, "job.py", broker.guarded, topic, guarantee],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(beadline.__file__).parents[1]), "PASSWORD": password},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("guarantee", ["EXACTLY_ONCE", "AT_LEAST_ONCE"])
def test_the_password_is_nowhere_to_be_read(broker: Guarded, tmp_path: Path, guarantee: str) -> None:
    topic = make_topic(broker, "guarded")
    done = run(tmp_path, broker, topic, PASSWORD, guarantee)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(values(broker, topic)) == ["one", "one", "two", "two"]
    assert "SASL" in done.stderr, "the clients have told everything"
    assert PASSWORD not in done.stdout
    assert PASSWORD not in done.stderr
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "job.py"]
    assert left
    assert [path for path in left if PASSWORD.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("guarantee", ["EXACTLY_ONCE", "AT_LEAST_ONCE"])
def test_a_wrong_password_is_told_without_it(broker: Guarded, tmp_path: Path, guarantee: str) -> None:
    done = run(tmp_path, broker, make_topic(broker, "wrong"), "wrong-77ab", guarantee)
    assert done.returncode == 1
    assert "Look at the user, the password and the mechanism of the log-in" in done.stderr
    assert "wrong-77ab" not in done.stdout + done.stderr


def test_representations_do_not_show_it() -> None:
    config = {"bootstrap.servers": "a:1", "sasl.password": PASSWORD}
    properties = {"bootstrap.servers": "a:1", "sasl.jaas.config": f'{MODULE} username="ann" password="{PASSWORD}";'}
    builder = KafkaSink.builder().set_record_serializer(serializer("t").build())
    for name, value in properties.items():
        builder.set_property(name, value)
    shown = [KafkaTransactions(config), KafkaLog(config), KafkaTransactions(config).coordinator]
    shown += [builder.build(), builder, FlinkKafkaProducer("t", Amount(), properties)]
    assert PASSWORD not in repr(shown)


def test_settings_that_are_refused_do_not_tell_it(broker: Guarded) -> None:
    with pytest.raises(ConfigurationError) as raised:
        KafkaLog({"bootstrap.servers": "a:1", "sasl.password": PASSWORD, "batch.size": "soon"}, ("t",)).check()
    assert "batch.size" in str(raised.value)
    assert PASSWORD not in str(raised.value)
