"""Whatever jobs and drivers a test leaves is ended with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.recovery.drivers import Driver
from tests.recovery.running import cancel_all


@pytest.fixture
def no_job_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Jobs tell all they have to tell, and end with the test."""
    caplog.set_level("INFO", "beadline")
    yield
    cancel_all()


@pytest.fixture
def drivers() -> Iterator[list[Driver]]:
    """Whatever is left of these when a test ends is killed."""
    started: list[Driver] = []
    yield started
    for driver in started:
        if not driver.has_ended:
            driver.kill()
