"""An executor of a cluster is killed, and the files are those of a job where nothing was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.scenarios import outcomes_of

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_an_executor_is_killed() -> None:
    facts = outcomes_of(Path(__file__).with_name("scenarios_cluster.py"), timeout=1100)["a killed executor"]
    assert facts["accidents"] == ["accident-fail-420", "accident-kill executor-180"]
    assert facts["restarts"] == 1, "a killed executor is no restart"
