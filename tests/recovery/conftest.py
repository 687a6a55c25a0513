"""What the scenarios told: each script of them is run once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.scenarios import outcomes_of
from tests.recovery.drivers import Driver

Facts = dict[str, dict[str, Any]]


def _told(script: str) -> Facts:
    return outcomes_of(Path(__file__).with_name(script), timeout=1100)


@pytest.fixture(scope="session")
def failures() -> Facts:
    return _told("scenarios_failures.py")


@pytest.fixture(scope="session")
def checkpoints() -> Facts:
    return _told("scenarios_checkpoints.py")


@pytest.fixture(scope="session")
def savepoints() -> Facts:
    return _told("scenarios_savepoints.py")


@pytest.fixture(scope="session")
def cluster() -> Facts:
    return _told("scenarios_cluster.py")


@pytest.fixture
def drivers() -> Iterator[list[Driver]]:
    """Whatever is left of these when a test ends is killed."""
    started: list[Driver] = []
    yield started
    for driver in started:
        if not driver.has_ended:
            driver.kill()
