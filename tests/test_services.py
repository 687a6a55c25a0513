"""The servers that tests and `make services` start: they keep their data, and never outlive who started them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from beadline.errors import EnvironmentSetupError
from beadline.services import KafkaServer, PostgresServer
from beadline.services import kafka as kafka_module

pytestmark = pytest.mark.slow


@pytest.fixture
def own_postgres(postgres: PostgresServer) -> Any:
    """A server of the test's own; the common one shows that it can be had."""
    with PostgresServer() as server:
        yield server


def answer(server: PostgresServer, query: str) -> Any:
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchone()[0] if cursor.description else None


@pytest.mark.postgres
def test_postgres_keeps_its_data_over_stops_and_kills(own_postgres: PostgresServer) -> None:
    answer(own_postgres, "CREATE TABLE kept AS SELECT 42 AS number")
    address = own_postgres.address
    own_postgres.restart()
    assert answer(own_postgres, "SELECT number FROM kept") == 42
    own_postgres.kill()
    assert not own_postgres.running
    own_postgres.start()
    assert answer(own_postgres, "SELECT number FROM kept") == 42
    assert own_postgres.address == address
    assert int(answer(own_postgres, "SHOW max_prepared_transactions")) > 0


@pytest.mark.postgres
def test_nothing_is_left_of_a_server_that_was_closed(postgres: PostgresServer) -> None:
    with PostgresServer() as server:
        folder, port = server.folder, server.port
    assert not folder.exists()
    assert not listens(port)


@pytest.mark.postgres
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=["KILL", "TERM", "INT"])
def test_nothing_is_left_when_its_process_is_killed(postgres: PostgresServer, how: signal.Signals) -> None:
    script = """
        import time
        from beadline.services import PostgresServer
        server = PostgresServer().start()
        print(server.port, server.folder, flush=True)
        time.sleep(600)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        port, folder = process.stdout.readline().split()
    assert listens(int(port))
    process.send_signal(how)
    process.wait(30)
    until = time.monotonic() + 30
    while (listens(int(port)) or os.path.exists(folder)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not listens(int(port))
    assert not os.path.exists(folder)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_a_server_that_cant_start_shows_its_log() -> None:
    class Broken(PostgresServer):
        def _set_up(self) -> None:
            pass

        def _command(self) -> list[str]:
            return ["sh", "-c", "echo no room on the disk; exit 3"]

    server = Broken()
    with pytest.raises(EnvironmentSetupError, match=r"PostgreSQL did not start.*\n    no room on the disk"):
        server.start()
    server.close()


def test_without_maven_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kafka_module.shutil, "which", lambda *_, **__: None)
    with pytest.raises(EnvironmentSetupError, match=r"there is no mvn here.*kafka-4\.1\.0"):
        kafka_module.jars()


@pytest.mark.kafka
def test_both_for_a_user_who_wants_to_try(kafka: KafkaServer, postgres: PostgresServer) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "beadline.services"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines: list[str] = []
    while "Ctrl-C" not in "".join(lines) and (line := process.stdout.readline()):
        lines.append(line)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    text = "".join(lines)
    assert (process.returncode, errors) == (0, "")
    assert "Kafka      127.0.0.1:" in text
    assert "PostgreSQL postgresql://postgres@127.0.0.1:" in text
    folders = [Path(line.split("log: ")[1].strip()).parent for line in lines if "log: " in line]
    assert [folder.exists() for folder in folders] == [False, False]


def test_tests_are_skipped_with_a_reason_or_fail() -> None:
    """In a pytest of its own, where there is no server to be had."""
    script = """
        import pytest
        from beadline.errors import EnvironmentSetupError
        from beadline.services import KafkaServer

        def refuse(self):
            raise EnvironmentSetupError("Maven can't\\n    fetch it")

        KafkaServer.start = refuse
        pytest.main(["-q", "-p", "no:cacheprovider", "tests/connectors/kafka/test_source.py", "-k", "earliest or time"])
    """
    found = {}
    for required in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            env={**os.environ, "BEADLINE_REQUIRE_SERVICES": required},
            cwd=Path(__file__).parent.parent,
        )
        found[required] = done.stdout
    assert "SKIPPED [2]" in found["0"]
    assert "no kafka to test with: Maven can't fetch it" in found["0"]
    assert "2 errors" in found["1"]
