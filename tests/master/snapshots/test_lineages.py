"""Nothing is named twice. A job takes back what it has published itself since a checkpoint, and nothing else: whatever
becomes of its folder, whoever has its id or writes to the same place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.ends import End
from beadline.checkpoint.settings import Retention
from beadline.connectors.files import RollingPolicy, pieces
from beadline.errors import JobExecutionError
from tests.master.snapshots.drivers import KILLED, Trap, ended
from tests.master.snapshots.local_jobs import LocalJob, file_sink, rows, rows_in, staged_files
from tests.master.snapshots.test_crashes import World
from tests.master.snapshots.troubles import until

KEPT = Retention.RETAIN_ON_CANCELLATION


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


class Jobs:
    """Starts jobs, and ends those that the test leaves running."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[LocalJob] = []

    def __call__(self, where: str = "here", **options: Any) -> LocalJob:
        """A job with its checkpoints in a directory of its own, and the output of all others."""
        options = {"job_id": "nightly", "retention": KEPT, "retained": 9, **options}
        options.setdefault("sinks", [file_sink(self._folder / "out")])
        job = LocalJob(self._folder / where, **options)
        self._started.append(job)
        return job

    def end(self) -> None:
        for job in self._started:
            job.cancel()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Jobs]:
    jobs = Jobs(tmp_path)
    yield jobs
    jobs.end()


def publish(job: LocalJob, times: int = 1) -> list[str]:
    """Steps of three records, with a checkpoint each."""
    pointers = []
    for _ in range(times):
        job.step()
        pointers.append(job.checkpoint())
    return pointers


def fail(job: LocalJob) -> None:
    """The next step fails once."""
    attempt = job.master.attempt
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()
    until(lambda: job.master.attempt == attempt + 1, "the failure")
    job.sealed()


def damage(*pointers: str) -> None:
    for pointer in pointers:
        path = Path(pointer, "_metadata")
        path.write_bytes(path.read_bytes()[:-10])


# -- jobs of one id


@pytest.mark.parametrize("where", ["here", "elsewhere"], ids=["the folder was removed", "another directory"])
@pytest.mark.parametrize("checkpoints", [0, 1])
def test_a_job_that_begins_again_takes_back_nothing_of_its_namesake(
    checkpoints: int, where: str, start: Jobs, tmp_path: Path, out: Path
) -> None:
    first = start()
    publish(first, 2)
    assert first.finish() is End.FINISHED
    if where == "here":
        shutil.rmtree(tmp_path / "here")
    second = start(where)
    publish(second, checkpoints)
    fail(second)
    assert second.finish() is End.FINISHED
    assert rows_in(out) == sorted(rows(6) + rows(3 * checkpoints + 3))


def test_a_job_from_a_savepoint_takes_back_nothing_of_a_namesake_in_between(
    start: Jobs, tmp_path: Path, out: Path
) -> None:
    first = start()
    first.step()
    savepoint = first.stop(tmp_path / "savepoints").result(20)
    assert first.ended() is End.STOPPED
    second = start()
    publish(second, 3)
    assert second.finish() is End.FINISHED
    third = start(restore_path=savepoint, given=3)
    publish(third)
    fail(third)
    assert third.finish() is End.FINISHED
    assert rows_in(out) == sorted(rows(9) + rows(9))


def test_two_jobs_of_one_id_at_the_same_time(start: Jobs, out: Path) -> None:
    """Each goes back several times, and tidies up after itself."""
    one, other = start("one"), start("other")
    for _ in range(3):
        for job in (one, other):
            publish(job)
            fail(job)
    assert {one.finish(), other.finish()} == {End.FINISHED}
    assert rows_in(out) == sorted(rows(18) * 2)
    assert staged_files(out) == []


def test_what_a_savepoint_promised_survives_namesakes(tmp_path: Path) -> None:
    """The job's folder is gone, and another one has begun and finished there, which counts epochs from one."""
    options = {"job_id": "orders"}
    first = World(tmp_path, stop=16, checkpoints=options)
    assert first.run(Trap("after noting the stop", since="after the savepoint's appearance")) == KILLED
    assert first.seen() == rows(8)
    (savepoint,) = map(str, (tmp_path / "savepoints").glob("savepoint-*"))
    shutil.rmtree(tmp_path / "checkpoints")
    second = World(tmp_path, checkpoints=options)
    assert ended(second.start()) == 0
    assert second.seen() == sorted(rows(8) + rows(24))
    assert ended(second.start(path=savepoint)) == 0
    assert second.seen() == sorted(rows(24) * 2)


# -- copies


def test_a_copied_directory_is_another_job(start: Jobs, tmp_path: Path, out: Path) -> None:
    """The original runs on, and publishes; the copy goes back."""
    first = start("original")
    pointers = publish(first, 2)
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    publish(first)
    older = tmp_path / "copy" / Path(pointers[0]).relative_to(tmp_path / "original")
    copy = start("copy", restore_path=str(older), given=3)
    assert rows_in(out) == rows(9), "nothing is taken back"
    publish(copy)
    fail(copy)
    publish(first)
    fail(first)
    assert {first.finish(), copy.finish()} == {End.FINISHED}
    assert rows_in(out) == sorted(rows(15) + rows(9, 3))


def test_a_copy_and_the_original_do_not_tidy_up_for_each_other(
    start: Jobs, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts stay open over checkpoints, so that both have rows in the same files."""
    monkeypatch.setattr(pieces, "_INLINE", 0)
    sinks = [file_sink(out, RollingPolicy())]
    first = start("original", sinks=sinks)
    (pointer,) = publish(first)
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    copied = tmp_path / "copy" / Path(pointer).relative_to(tmp_path / "original")
    copy = start("copy", sinks=sinks, restore_path=str(copied), given=3)
    publish(copy)
    fail(copy)
    publish(first)
    fail(first)
    assert first.finish() is End.FINISHED
    publish(copy)
    assert copy.finish() is End.FINISHED
    assert rows_in(out) == sorted(rows(9) + rows(12))


# -- going back in one lineage


@pytest.mark.parametrize("how", ["named", "damaged"])
def test_a_sink_that_was_added_since_is_taken_back(how: str, start: Jobs, out: Path) -> None:
    first = start(sinks=[])
    (before,) = publish(first)
    first.cancel()
    second = start(restore_path="latest", given=3)
    later = publish(second, 2)
    second.cancel()
    assert rows_in(out) == rows(9, 3)
    if how == "damaged":
        damage(*later)
    third = start(restore_path=before if how == "named" else "latest", given=3)
    publish(third)
    assert third.finish() is End.FINISHED
    assert rows_in(out) == rows(6, 3)


def test_parts_of_a_subtask_are_numbered_in_order_over_all_drivers(start: Jobs, out: Path) -> None:
    first = start()
    publish(first, 3)
    first.cancel()
    second = start(restore_path="latest", given=9)
    publish(second, 2)
    fail(second)
    publish(second)
    assert second.finish() is End.FINISHED
    found: dict[int, list[tuple[int, list[int]]]] = {}
    for path in out.iterdir():
        if not path.name.startswith("."):
            subtask, counter = map(int, path.name.split("-")[-2:])
            lines = path.read_text().splitlines()
            found.setdefault(subtask, []).append((counter, [int(line.partition(":")[0]) for line in lines]))
    for parts in found.values():
        numbers = [number for _, written in sorted(parts) for number in written]
        assert numbers == sorted(numbers)
        assert len({counter for counter, _ in parts}) == len(parts)
    assert rows_in(out) == rows(21)


@pytest.mark.parametrize("change", [{"suffix": ".log"}, {"prefix": "other"}, {"base_path": "elsewhere"}, {}], ids=str)
def test_what_was_published_under_other_names_is_taken_back(
    change: dict[str, str], start: Jobs, tmp_path: Path, out: Path
) -> None:
    """The first driver's names, and in the third driver those of the second."""
    sink = replace(file_sink(out), suffix=".txt")
    if "base_path" in change:
        change = {"base_path": str(tmp_path / "elsewhere")}
    other = replace(sink, **change)  # type: ignore[arg-type]

    def seen() -> list[str]:
        return sorted(rows_in(out) + rows_in(tmp_path / "elsewhere"))

    first = start(sinks=[sink])
    before, _ = publish(first, 2)
    first.cancel()
    assert seen() == rows(6)
    second = start(sinks=[other], restore_path=before, given=3)
    publish(second, 2)
    second.cancel()
    assert seen() == rows(9)
    third = start(sinks=[sink], restore_path=before, given=3)
    publish(third)
    assert third.finish() is End.FINISHED
    assert seen() == rows(6)


def test_a_driver_gives_no_name_twice(start: Jobs, out: Path) -> None:
    """Somebody who remembers names would pass over what comes later under a name that was seen."""
    job = start()
    _, newest = publish(job, 2)
    seen = {path: path.read_text() for path in out.glob("part-*")}
    damage(newest)
    fail(job)
    job.checkpoint()
    for path in out.glob("part-*"):
        assert seen.setdefault(path, path.read_text()) == path.read_text()
    assert job.finish() is End.FINISHED
    assert rows_in(out) == rows(9)
