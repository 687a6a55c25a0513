"""Apache Kafka: one node in KRaft mode, its jars from Maven Central."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from beadline.services.server import Server, ServerMissingError, free_port

VERSION = "4.1.0"
_LOG4J = "2.25.1"
_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J),
    ("org.apache.logging.log4j", "log4j-core", _LOG4J),
)
_HEAP = "-Xmx384m"
_LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRefs = out
rootLogger.appenderRef.out.ref = OUT
appenders = out
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""


class KafkaServer(Server):
    """A broker that is its own controller.

    :param settings: further settings of the broker, by their names in ``server.properties``
    """

    name = "Kafka"
    passing: ClassVar[tuple[str, ...]] = ("Address already in use",)

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self.port = free_port()
        self._controller_port = free_port()
        self._settings = dict(settings or {})
        self._jars: Path | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def bootstrap_servers(self) -> str:
        """What clients call the address."""
        return self.address

    def _set_up(self) -> None:
        self._jars = jars()
        (self.folder / "log4j2.properties").write_text(_LOGGING)
        properties = {**self._own_settings(), **self._settings}
        lines = [f"{key}={value}\n" for key, value in properties.items()]
        (self.folder / "server.properties").write_text("".join(lines))
        format_storage = ["format", "-t", _cluster_id(), "-c", str(self.folder / "server.properties"), "--standalone"]
        self._run_tool([*self._java(), "kafka.tools.StorageTool", *format_storage], "formatting its storage")

    def _own_settings(self) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.folder / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 3,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            # After kill -9 the broker may come back only when its old session has ended.
            "broker.session.timeout.ms": 4000,
            "broker.heartbeat.interval.ms": 500,
        }

    def _java(self) -> list[str]:
        assert self._jars is not None
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        return [_java(), _HEAP, "-XX:+UseSerialGC", logging, "-cp", f"{self._jars}/*"]

    def _command(self) -> list[str]:
        return [*self._java(), "kafka.Kafka", str(self.folder / "server.properties")]

    def _answers(self) -> bool:
        """The broker answers requests only after it has joined its cluster. ApiVersions is the smallest one."""
        header = struct.pack(">hhih", 18, 0, 1, -1)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(header)) + header)
            return len(connection.recv(8)) == 8
        return False


def jars() -> Path:
    """The folder with Kafka's jars. They are fetched once per user: 54 MB, half a minute."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beadline"
    folder = cache / f"kafka-{VERSION}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerMissingError(
            "Kafka's jars are fetched with Maven, and there is no mvn here: install it (Debian, Ubuntu: apt-get "
            f"install maven), or put the jars of kafka_2.13 {VERSION} and its dependencies into {folder}"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "kafka.lock"):
        if not folder.is_dir():
            _fetch(maven, folder)
    return folder


def _fetch(maven: str, folder: Path) -> None:
    """Have Maven copy the jars into a folder of another name, which gets its name when it is complete."""
    with tempfile.TemporaryDirectory(prefix="kafka-", dir=folder.parent) as temporary:
        pom = Path(temporary, "pom.xml")
        pom.write_text(_pom())
        target = Path(temporary, "jars")
        command = [maven, "-q", "-B", "-f", str(pom), f"{_DEPENDENCY_PLUGIN}:copy-dependencies"]
        command.append(f"-DoutputDirectory={target}")
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode:
            said = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
            raise ServerMissingError(f"Maven can't fetch Kafka {VERSION}: {said[0] if said else result.returncode}")
        target.rename(folder)


def _pom() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in _ARTIFACTS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>beadline</groupId><artifactId>kafka</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        raise ServerMissingError(
            "Kafka needs Java 17 or newer, and there is none: install openjdk-17-jre-headless, or set JAVA_HOME"
        )
    return java


def _cluster_id() -> str:
    """A random id in Kafka's form, which must not look like an option."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
        if not made.startswith("-"):
            return made
