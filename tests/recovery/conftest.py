"""What the scenarios told: each script of them is run once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.scenarios import outcomes_of

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
def cluster() -> Facts:
    return _told("scenarios_cluster.py")
