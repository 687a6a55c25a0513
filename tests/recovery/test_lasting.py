"""Errors that no restart can mend end the job at once; those that may pass are left to the restart strategy."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.errors import (
    BeadlineError,
    ConfigurationError,
    JobExecutionError,
    StateMismatchError,
    UnsupportedFeatureError,
)
from tests.datastream.jobs import restarting

RESTARTS = 1

pytestmark = pytest.mark.usefixtures("engine")


def started(kind: type[Exception], bad: int, **options: str) -> Any:
    """The results of a job that fails at a record each time; steps have 50 records."""

    def check(number: int) -> int:
        if number == bad:
            raise kind("no good")
        return number

    env = restarting(RESTARTS, 1, step_records=50, execution__checkpointing__interval="50 ms", **options)
    return env.from_sequence(0, 199).map(check).execute_and_collect()


def restarts(kind: type[Exception], bad: int) -> int:
    """How often it starts again."""
    results = started(kind, bad)
    with pytest.raises(BeadlineError, match="no good"), results:
        list(results)
    history = results._client.get_exceptions()
    assert history[-1]["restarted_from"] is None, "the failure that ended it is the last one"
    return len(history) - 1


@pytest.mark.parametrize(
    ("kind", "at_once", "later"),
    [
        (ValueError, RESTARTS, RESTARTS),
        (ModuleNotFoundError, 0, RESTARTS),
        (ConfigurationError, 0, RESTARTS),
        (UnsupportedFeatureError, 0, RESTARTS),
        pytest.param(StateMismatchError, 0, 0, marks=pytest.mark.spark),
    ],
)
def test_whether_a_restart_can_help(kind: type[Exception], at_once: int, later: int) -> None:
    """What a set-up lacks is known for sure as long as nothing has worked: before the first step is sealed."""
    assert restarts(kind, bad=7) == at_once
    assert restarts(kind, bad=120) == later


def test_a_record_may_be_to_blame_for_a_missing_module() -> None:
    """If such records are to be left out, they are, in the first step as well."""
    with started(ModuleNotFoundError, 7, beadline__poison__action="skip", beadline__poison__tries="1") as results:
        assert sorted(results) == [number for number in range(200) if number != 7]


@pytest.mark.spark
def test_it_is_said_that_the_record_failed_each_time() -> None:
    with pytest.raises(JobExecutionError) as caught, started(ValueError, 7) as results:
        list(results)
    assert (
        caught.value.__notes__[-1]
        == "The job is not restarted: all 1 restarts are used up (restart-strategy.fixed-delay.attempts); the same "
        "record has failed 2 times (to go on without it, set beadline.poison.action=skip or "
        "beadline.poison.action=side-output)"
    )
