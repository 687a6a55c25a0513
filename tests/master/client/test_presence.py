"""A job that runs can be found, and its process listens for those who ask."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beadline.common import Configuration, JobClient
from beadline.datastream import StreamExecutionEnvironment
from beadline.errors import ConfigurationError
from beadline.master.client import registry
from beadline.master.client.presence import presence

pytestmark = pytest.mark.usefixtures("local_engine")


@pytest.fixture
def running() -> Iterator[list[JobClient]]:
    """Jobs that are cancelled when the test is over."""
    jobs: list[JobClient] = []
    yield jobs
    for job in jobs:
        job.cancel().result()


def endless(name: str, jobs: list[JobClient], **options: str) -> JobClient:
    """A job that waits for lines that nobody sends."""
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.from_sequence(0, 10**12).map(_slowly).set_parallelism(1)
    jobs.append(env.execute_async(name))
    return jobs[-1]


def _slowly(number: int) -> int:
    time.sleep(0.002)
    return number


def test_a_job_is_registered_while_it_runs(running: list[JobClient]) -> None:
    job = endless("clicks", running)
    entry = registry.find("clicks")
    assert entry.job_id == str(job.get_job_id())
    assert (entry.pid, entry.engine, entry.is_alive) == (os.getpid(), "local", True)
    with socket.create_connection(("127.0.0.1", entry.port), 5):
        pass
    job.cancel().result()
    assert "clicks" not in [each.name for each in registry.entries()]


def test_jobs_of_a_process_share_its_port(running: list[JobClient]) -> None:
    endless("one", running)
    endless("two", running)
    assert registry.find("one").port == registry.find("two").port
    running[0].cancel().result()
    assert registry.find("two").is_alive


def test_nothing_is_loaded_until_somebody_asks(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text(
        "import sys\n"
        "from beadline.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).print()\n"
        "env.execute()\n"
        "print([name for name in ('fastapi', 'uvicorn', 'asyncio', 'psutil') if name in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_job_that_wants_no_server_has_none(running: list[JobClient]) -> None:
    endless("hidden", running, **{"beadline.rest.enabled": "false"})
    assert "hidden" not in [each.name for each in registry.entries()]


def test_a_port_that_is_taken_is_replaced_with_a_word_on_who_has_it(
    running: list[JobClient], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with caplog.at_level(logging.WARNING, "beadline"):
            endless("second", running, **{"rest.port": str(port)})
        assert registry.find("second").port != port
        assert f"port {port} is taken by process {os.getpid()}" in caplog.text


def test_a_range_gives_the_first_port_that_is_free(running: list[JobClient]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        endless("ranged", running, **{"rest.bind-port": f"{port}-{port + 20}"})
        assert port < registry.find("ranged").port <= port + 20


def test_another_address_for_a_process_that_has_one_is_only_for_later(
    running: list[JobClient], caplog: pytest.LogCaptureFixture
) -> None:
    endless("first", running)
    token = "a-token-of-my-own-choice"
    endless("second", running, **{"beadline.rest.token": token})
    assert "have no effect" in caplog.text
    assert token not in caplog.text
    assert registry.find("second").token != token
    for job in running:
        job.cancel().result()
    endless("third", running, **{"beadline.rest.token": token})
    assert registry.find("third").token == token
    assert presence.door is not None
    assert token not in repr(presence.door)


def test_an_address_that_is_not_of_this_machine_is_an_error(running: list[JobClient]) -> None:
    with pytest.raises(ConfigurationError, match=r"rest.bind-address 192.0.2.1 can't be listened on"):
        endless("far", running, **{"rest.bind-address": "192.0.2.1"})


PROGRAM = """
import time
from beadline.datastream import StreamExecutionEnvironment

def slowly(number):
    time.sleep(0.01)
    return number

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_sequence(0, 10**12).map(slowly)
env.execute("victim")
"""


def test_kill_9_leaves_nothing_that_disturbs(
    tmp_path: Path, running: list[JobClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port is free again, the list is right, and the next driver starts as the first did."""
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path / "state"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    (tmp_path / "config.yaml").write_text(json.dumps({"rest.port": port}))
    victim = subprocess.Popen([sys.executable, str(program)], env={**os.environ, "BEADLINE_CONF_DIR": str(tmp_path)})
    try:
        deadline = time.monotonic() + 30
        while not registry.entries() and time.monotonic() < deadline:
            time.sleep(0.05)
        (entry,) = registry.entries()
        assert (entry.name, entry.pid, entry.port) == ("victim", victim.pid, port)
        with socket.create_connection(("127.0.0.1", port), 5):  # somebody was connected
            victim.send_signal(signal.SIGKILL)
            victim.wait(10)
    finally:
        victim.kill()
        victim.wait(10)
    assert (tmp_path / "state" / "jobs" / f"{entry.job_id}.json").exists()
    assert registry.entries() == []
    endless("successor", running, **{"rest.port": str(port)})
    assert registry.find("successor").port == port
    assert [each.name for each in registry.entries()] == ["successor"]
