"""Servers to test with: one of each per pytest process, started for the first test that needs it.

Where this machine has no such server, the tests that need it are skipped, with one line that says why; with
``BEADLINE_REQUIRE_SERVICES=1`` they fail. A server that is there and does not start fails them in any case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from beadline.connectors.kafka.coordinator import close_coordinators
from beadline.errors import EnvironmentSetupError
from beadline.services import KafkaServer, PostgresServer, Server, ServerMissingError

S = TypeVar("S", bound=Server)

# Transactions that have timed out are ended soon after, for tests that wait for it.
_BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}


_MAKERS: dict[str, Callable[[], Server]] = {"kafka": lambda: KafkaServer(_BROKER), "postgres": PostgresServer}
_started: dict[str, Server | EnvironmentSetupError] = {}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start what a test needs. It is skipped here and not in a fixture, so that the summary has one line for all tests
    that lack a server."""
    for name in _MAKERS:
        if name in getattr(item, "fixturenames", ()):
            _start(name)


def _start(name: str) -> Any:
    if name not in _started:
        server = _MAKERS[name]()
        try:
            _started[name] = server.start()
        except EnvironmentSetupError as error:
            server.close()
            _started[name] = error
    found = _started[name]
    if isinstance(found, EnvironmentSetupError):
        if not isinstance(found, ServerMissingError) or os.environ.get("BEADLINE_REQUIRE_SERVICES") == "1":
            raise found
        pytest.skip(f"no {name} to test with: {' '.join(str(found).split())}")
    return found


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """A broker of this process's tests. They share it: topics, groups and transactional ids need names of their own."""
    server: KafkaServer = _start("kafka")
    yield server
    close_coordinators()
    server.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this process's tests. They share it: tables need names of their own."""
    server: PostgresServer = _start("postgres")
    yield server
    server.close()


def _running(server: S) -> Iterator[S]:
    """A server of some test's own."""
    try:
        yield server.start()
    finally:
        server.close()
