"""Checkpoints and files in an object store: a server that speaks S3, on loopback.

Drivers die at each point of the commit protocol, while somebody takes away what appears: every line is there once.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nightly import NIGHTLY
from tests.object_store import Store, object_store
from tests.recovery.consuming import of_store
from tests.recovery.drivers import Driver
from tests.recovery.dying import COMMIT_POINTS
from tests.recovery.jobs import LOCAL, STEP, differences

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3000 if NIGHTLY else 600)]

PACE = 0.003
# By day workers of Spark write state and output once. At each of these points an upload is left that is not completed.
SPARK: dict[str, str] = {}
ON_SPARK = "before output is published"
LEAVE_UPLOADS = ("after output was pre-committed", ON_SPARK, "in the middle of publishing")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with object_store(monkeypatch) as made:
        yield made


@pytest.mark.parametrize("form", ["text", "parquet"] if NIGHTLY else ["text"])
def test_drivers_are_killed_and_files_that_were_taken_away_do_not_come_back(
    form: str, store: Store, tmp_path: Path, drivers: list[Driver]
) -> None:
    engines = {point: [SPARK, LOCAL] if NIGHTLY else [SPARK if point == ON_SPARK else LOCAL] for point in COMMIT_POINTS}
    lives = [(point, engine) for point in COMMIT_POINTS for engine in engines[point]]
    records = 12 * len(lives) * STEP
    options = {
        "execution.checkpointing.dir": store.uri("checkpoints"),
        "execution.checkpointing.data-inline-threshold": "0",
        "execution.checkpointing.interval": "200 ms",
    }
    out = store.uri("my%20out")

    def start(pace: float, engine: dict[str, str], dies: str | None = None) -> Driver:
        resume = "latest" if drivers else None
        drivers.append(Driver(tmp_path, records, pace, resume, options | engine, dies, out, form=form))
        return drivers[-1]

    with of_store(store, "my out/") as consumer:
        for point, engine in lives:
            driver = start(PACE, engine, point)
            assert driver.end() == -signal.SIGKILL, f"{point}: {driver!r}"
            assert store.uploads("my out/") or point not in LEAVE_UPLOADS, point
            assert differences(consumer.look(), records, whole=False) == [], point
        seen = len(consumer.look())
        assert 0 < seen < records, "the kills came in the middle"
        left = [key.partition("/")[2].partition("/")[2] for key in store.objects("checkpoints/")]
        assert any(re.fullmatch(r"chk-\d+/_metadata", key) for key in left), left
        assert any(key.startswith("shared/") for key in left), left
        last = start(0.0, LOCAL)
        assert last.end() == 0, last
        assert "restored from" in last.said
        assert differences(consumer.look(), records) == []
    assert store.uploads("my out/") == []
    left = [key.rpartition("/")[2] for key in store.objects() if not key.endswith("/")]
    assert left == ["ended"], "a job that has finished needs neither checkpoints nor what was staged"
