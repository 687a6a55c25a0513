"""Servers to test with: one of each per pytest process, started for the first test that needs it.

Where one can't be had, the tests that need it are skipped, with one line that says why. With
``BEADLINE_REQUIRE_SERVICES=1`` they fail instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeVar

import pytest

from beadline.connectors.kafka.coordinator import close_coordinators
from beadline.errors import EnvironmentSetupError
from beadline.services import KafkaServer, PostgresServer, Server

S = TypeVar("S", bound=Server)

# Transactions that have timed out are ended soon after, for tests that wait for it.
_BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """A broker of this process's tests. They share it: topics, groups and transactional ids need names of their own."""
    for server in _running(KafkaServer(_BROKER)):
        yield server
        close_coordinators()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this process's tests. They share it: tables need names of their own."""
    yield from _running(PostgresServer())


def _running(server: S) -> Iterator[S]:
    try:
        server.start()
        yield server
    except EnvironmentSetupError as error:
        if os.environ.get("BEADLINE_REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(f"no {server.name} to test with: {' '.join(str(error).split())}")
    finally:
        server.close()
