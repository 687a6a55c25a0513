"""A disk that is full for a while: the job says where, goes on when there is room, and blames no record."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Encoder, Types
from beadline.datastream import KeyedProcessFunction, RuntimeContext
from beadline.datastream.connectors.file_system import FileSink
from beadline.datastream.state import ValueStateDescriptor
from beadline.master import stepping
from beadline.master.engines.engine import OutOfTries
from beadline.master.spark.engine import SparkEngine
from tests.datastream.jobs import restarting
from tests.disks import fill, small_disk_at
from tests.recovery.logs import WhenItFails, told

pytestmark = pytest.mark.spark

RECORDS, KEYS = 4000, 2000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk", "8m") as folder:
        yield folder


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.STRING()))

    def process_element(self, value: int, ctx: Any) -> Any:
        count = int((self.last.value() or "0").split()[0]) + 1
        self.last.update(f"{count} {'x' * 200}")
        yield f"{ctx.get_current_key()} {count}"


EXPECTED = Counter(f"{key} {count}" for key in range(KEYS) for count in range(1, RECORDS // KEYS + 1))


@pytest.mark.parametrize("whose", ["state", "sink"])
def test_a_full_disk(spark: Any, tmp_path: Path, disk: Path, caplog: pytest.LogCaptureFixture, whose: str) -> None:
    output = (disk if whose == "sink" else tmp_path) / "out"
    options = {
        "execution__checkpointing__interval": "50 ms",
        "execution__checkpointing__dir": (disk if whose == "state" else tmp_path) / "checkpoints",
        "execution__checkpointing__tolerable-failed-checkpoints": 1000,
        "beadline__poison__action": "skip",
        "beadline__poison__tries": 1,
    }
    env = restarting(20, step_records=1000, **options)
    marker = str(tmp_path / "marker")

    def fill_at_half(value: int) -> int:
        if value == RECORDS // 2 and not os.path.exists(marker):
            Path(marker).touch()
            fill(disk)
        return value

    counts = (
        env.from_sequence(0, RECORDS - 1)
        .map(fill_at_half, output_type=Types.LONG())
        .key_by(lambda number: number % KEYS, key_type=Types.LONG())
        .process(Count(), output_type=Types.STRING())
        .name("counting")
    )
    counts.map(lambda text: f"{text} {'y' * 200}", output_type=Types.STRING()).sink_to(
        FileSink.for_row_format(str(output), Encoder.simple_string_encoder()).build()
    ).name("files")
    handler = WhenItFails((disk / "big").unlink)
    with caplog.at_level("WARNING", "beadline"), handler.attached():
        env.execute()
    lines = [line for part in output.glob("*/part-*") for line in part.read_text().splitlines()]
    assert Counter(line.rpartition(" ")[0] for line in lines) == EXPECTED
    failures = told(caplog, "attempt")
    operator = "counting" if whose == "state" else "files"
    assert failures, told(caplog, "")
    for text in failures:
        assert f"operator '{operator}'" in text
        assert f"No space left on device: '{disk}/" in text
        assert "Free some space there" in text
    assert told(caplog, "record") == [], "no record is at fault"


def test_when_it_is_the_disk_of_spark_its_setting_is_named(spark: Any) -> None:
    error = RuntimeError("Job aborted: java.io.IOException: No space left on device\n\tat java.base/java.io")
    told = str(stepping._gave_up(3, OutOfTries(6, error), SparkEngine(spark)))
    assert "step 3 failed 6 times" in told
    assert "spark.local.dir (" in told
    assert "Free some space there" in told
