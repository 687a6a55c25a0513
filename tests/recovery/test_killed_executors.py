"""An executor of a cluster is killed, and the files are those of a job where nothing was."""

from __future__ import annotations

from typing import Any

import pytest

from tests.recovery.test_failures import facts_of

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_an_executor_is_killed(cluster: dict[str, dict[str, Any]]) -> None:
    facts = facts_of("a_killed_executor", cluster)
    assert facts["accidents"] == ["accident-fail-420", "accident-kill executor-180"]
    assert len(facts["restarts"]) == 1, "a killed executor is no restart"
