"""One local cluster for all tests that need one: it takes long to start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.master import engines
from tests.engine.scenarios import outcomes_of


@pytest.fixture(params=engines.ON_SPARK)
def on_spark(request: pytest.FixtureRequest, spark: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each engine whose workers are Spark's."""
    monkeypatch.setenv(engines.VARIABLE, request.param)
    return str(request.param)


@pytest.fixture(scope="session")
def cluster_outcomes() -> dict[str, dict[str, Any]]:
    """What the scenarios of ``scenarios_cluster.py`` told, by name."""
    return outcomes_of(Path(__file__).with_name("scenarios_cluster.py"), timeout=1700)
