"""Two copies of one task are at work at the same time, and only one of them counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.engine.jobs import STEP, counts
from tests.engine.scenarios_speculation import SLOW, STEPS

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_speculative_copy_does_nothing_twice(cluster_outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = cluster_outcomes["slow_tasks"]
    assert outcome["accidents"] == sorted(f"accident-{number}" for number in SLOW), "both copies met"
    assert set(outcome["tries"]) == {1}
    assert Counter(map(tuple, outcome["results"])) == counts(STEPS * STEP)
