"""Checkpoints and files in an object store: a server that speaks S3, on loopback."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.object_store import Store, object_store
from tests.recovery.consuming import of_store
from tests.recovery.drivers import Driver
from tests.recovery.jobs import LOCAL, STEP, differences

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

RECORDS = 20 * STEP
PACE = 0.01


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with object_store(monkeypatch) as made:
        yield made


def test_drivers_are_killed_and_files_that_were_taken_away_do_not_come_back(
    store: Store, tmp_path: Path, drivers: list[Driver]
) -> None:
    options = {
        "execution.checkpointing.dir": store.uri("checkpoints"),
        "execution.checkpointing.data-inline-threshold": "0",
    }
    out = store.uri("my%20out")
    with of_store(store, "my out/") as consumer:
        for resume, dies, engine in (
            (None, "before output is published", {}),
            ("latest", "after output was published", LOCAL),
        ):
            driver = Driver(tmp_path, RECORDS, PACE, resume, options | engine, dies, out)
            drivers.append(driver)
            assert driver.end() == -signal.SIGKILL, driver
            assert differences(consumer.look(), RECORDS, whole=False) == [], dies
            assert store.uploads() or dies == "after output was published"
        seen = len(consumer.look())
        assert 0 < seen < RECORDS, "the kills came in the middle"
        left = [key.partition("/")[2].partition("/")[2] for key in store.objects("checkpoints/")]
        assert any(re.fullmatch(r"chk-\d+/_metadata", key) for key in left), left
        assert any(key.startswith("shared/") for key in left), left
        last = Driver(tmp_path, RECORDS, 0.0, "latest", options | LOCAL, out=out)
        drivers.append(last)
        assert last.end() == 0, last
        assert "restored from" in last.said
        assert differences(consumer.look(), RECORDS) == []
    assert store.uploads("my out/") == []
    left = [key.rpartition("/")[2] for key in store.objects() if not key.endswith("/")]
    assert left == ["ended"], "a job that has finished needs neither checkpoints nor what was staged"
