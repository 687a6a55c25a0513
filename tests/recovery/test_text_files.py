"""Jobs over text files that are cut, replaced or not what they say: every row once, or an error that says where."""

from __future__ import annotations

import gzip
import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Types, WatermarkStrategy
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.datastream import OutputTag
from beadline.datastream.connectors.file_system import FileSource, StreamFormat
from beadline.errors import JobExecutionError
from tests.datastream.jobs import restarting
from tests.recovery.logs import WhenItFails, told

pytestmark = pytest.mark.usefixtures("engine")

LINES = 1500
BAD = {411, 900, 1499}
POISON = OutputTag("beadline-poison", Types.PICKLED_BYTE_ARRAY())


def text_of(number: int) -> str:
    return f"{number:05} grüße"


def line_of(number: int) -> bytes:
    return text_of(number).encode("latin-1" if number in BAD else "utf-8")


GOOD = Counter(text_of(number) for number in range(LINES) if number not in BAD)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "input" / "rows.txt"
    path.parent.mkdir()
    path.write_bytes(b"".join(line_of(number) + b"\n" for number in range(LINES)))
    return path


def reading(path: Path, action: str, tries: int = 2, restarts: int = 20, interval: str = "100 ms") -> tuple[Any, Any]:
    poison = {"beadline__poison__action": action, "beadline__poison__tries": tries}
    env = restarting(restarts, execution__checkpointing__interval=interval, step_records=400, **poison)
    return env, env.read_text_file(str(path))


# -- bad lines


def test_by_default_a_bad_line_ends_the_job(path: Path) -> None:
    _, lines = reading(path, "fail", restarts=1)
    with pytest.raises(JobExecutionError) as caught:
        list(lines.execute_and_collect())
    offset = sum(len(line_of(number)) + 1 for number in range(411))
    message = str(caught.value)
    assert rf"b'00411 gr\xfc\xdfe' (the line at byte {offset} of {path})" in message
    assert "not UTF-8" in message
    assert "beadline.poison.action=skip" in message
    assert len("\n".join([message, *caught.value.__notes__]).splitlines()) <= 10


def test_bad_lines_are_skipped_and_the_others_are_read_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, lines = reading(path, "skip")
    with caplog.at_level("WARNING", "beadline"), lines.execute_and_collect() as results:
        assert Counter(results) == GOOD
    skipped = told(caplog, "record b'")
    assert len(skipped) == len(BAD)
    assert all("failed 2 times" in text and f"of {path})" in text and "it is skipped" in text for text in skipped)
    assert len(told(caplog, "attempt")) == 2 * len(BAD)


@pytest.mark.spark
def test_the_bytes_of_bad_lines_go_to_a_side_output(path: Path) -> None:
    """From two sources of one name; one of them has timestamps, and one is packed."""
    packed = path.with_name("rows.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    env, lines = reading(path, "side-output", tries=1)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(packed)).build()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FromLine())
    timed = env.from_source(source, strategy, "Text File Source")
    both = lines.map(lambda line: ("plain", line)).union(
        timed.map(lambda line: ("timed", line)),
        lines.get_side_output(POISON).map(lambda data: ("plain bad", data)),
        timed.get_side_output(POISON).map(lambda data: ("timed bad", data)),
    )
    with both.execute_and_collect() as results:
        found = list(results)
    for kind in ("plain", "timed"):
        assert Counter(line for what, line in found if what == kind) == GOOD
        assert Counter(data for what, data in found if what == f"{kind} bad") == Counter(map(line_of, BAD))


class FromLine(TimestampAssigner):
    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        return int(value[:5])


# -- files that change


@pytest.mark.parametrize("change", ["cut", "replaced", "removed"])
def test_a_file_that_changes_while_it_is_read(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    path.write_bytes("".join(text_of(number) + "\n" for number in range(LINES)).encode())
    size = path.stat().st_size
    kept, marker = tmp_path / "kept", tmp_path / "marker"
    shutil.copyfile(path, kept)
    _, lines = reading(path, "fail")

    def sabotage(line: str) -> str:
        if line == text_of(700) and not marker.exists():
            marker.touch()
            if change == "cut":
                os.truncate(path, size - size // 3)
            elif change == "removed":
                path.unlink()
            else:
                other = path.with_name("_other")
                other.write_bytes(b"another line\n" * LINES * 2)
                other.replace(path)
        return line

    handler = WhenItFails(lambda: shutil.copyfile(kept, path))
    with (
        caplog.at_level("WARNING", "beadline"),
        handler.attached(),
        lines.map(sabotage).execute_and_collect() as results,
    ):
        assert Counter(results) == Counter(map(text_of, range(LINES)))
    failures = told(caplog, "attempt")
    assert failures
    assert all(str(path) in text and f"{size}" in text and "back as it was" in text for text in failures)


@pytest.mark.spark
def test_a_file_that_was_cut_while_the_job_was_away(path: Path, tmp_path: Path) -> None:
    path.write_bytes("".join(text_of(number) + "\n" for number in range(LINES)).encode())
    kept, begun = path.read_bytes(), tmp_path / "begun"

    def slowly(line: str) -> bool:
        begun.touch()
        time.sleep(0.004)
        return False

    env, lines = reading(path, "fail")
    lines.filter(slowly).print()
    client = env.execute_async()
    while not begun.exists():
        time.sleep(0.01)
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    os.truncate(path, len(kept) - 100)

    def resumed() -> Any:
        env, lines = reading(path, "fail", restarts=0)
        env._configuration.set_string("execution.state-recovery.path", savepoint)
        env._configuration.set_string("execution.state-recovery.ignore-unclaimed-state", "true")
        return lines.execute_and_collect()

    with pytest.raises(JobExecutionError, match=rf"{path} has {len(kept) - 100} bytes and had {len(kept)}"):
        list(resumed())
    path.write_bytes(kept)
    with resumed() as results:
        rest = list(results)
    assert 0 < len(rest) < LINES
    assert sorted(rest) == [text_of(number) for number in range(LINES - len(rest), LINES)]
