"""Two copies of one task are at work at the same time, and only one of them counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.engine.jobs import STEP, counts
from tests.engine.scenarios import outcomes_of
from tests.engine.scenarios_speculation import SLOW, STEPS


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.cluster
def test_a_speculative_copy_does_nothing_twice() -> None:
    outcome = outcomes_of(Path(__file__).with_name("scenarios_speculation.py"), timeout=280)["slow_tasks"]
    assert outcome["accidents"] == sorted(f"accident-{number}" for number in SLOW), "both copies met"
    assert set(outcome["tries"]) == {1}
    assert Counter(map(tuple, outcome["results"])) == counts(STEPS * STEP)
