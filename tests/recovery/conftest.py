"""What the scenarios told: each script of them is run once, and both beside each other, for they mostly wait."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.engine.scenarios import outcomes_of

Facts = dict[str, dict[str, Any]]


def _told(script: str) -> Facts:
    return outcomes_of(Path(__file__).with_name(script), timeout=1100)


@pytest.fixture(scope="session")
def _scripts() -> Iterator[dict[str, Future[Facts]]]:
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(_told, f"scenarios_{name}.py") for name in ("failures", "checkpoints")}


@pytest.fixture(scope="session")
def failures(_scripts: dict[str, Future[Facts]]) -> Facts:
    return _scripts["failures"].result()


@pytest.fixture(scope="session")
def checkpoints(_scripts: dict[str, Future[Facts]]) -> Facts:
    return _scripts["checkpoints"].result()


@pytest.fixture(scope="session")
def cluster() -> Facts:
    return _told("scenarios_cluster.py")
