"""Which job of a directory is an earlier run of a program, and what there is to choose from if nobody can tell."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.cleanup.disposal import job_begins, leave_trace
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.directory.jobs import (
    CheckpointDirectory,
    Job,
    Trace,
    choose,
    read_trace,
    refuse_finished,
    write_trace,
)
from beadline.checkpoint.directory.lookup import Listed
from beadline.checkpoint.ownership import holder
from beadline.checkpoint.ownership.holder import Holder
from beadline.checkpoint.ownership.lease import Fenced, Lease
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.errors import JobFinishedError
from beadline.graph.program import DEFAULT_JOB_NAME, Program
from tests.checkpoint.snapshots import make_snapshot, place_in, take_over

ORDERS = Program("/jobs/orders.py", ("--topic", "a"), "graph")
SCRIPT = {"script": "/jobs/other.py"}
ARGUMENTS = {"arguments": ("--topic", "b")}
GRAPH = {"graph": "another"}


def job(number: int = 1, name: str = "orders", program: Program = ORDERS, finished: bool = False) -> Job:
    snapshot = Snapshot(number, f"j{number}", name, 1, number * 1000, (), program=program)
    listed = None if finished else Listed(f"/cp/j{number}/chk-{number}", number, snapshot)
    return Job(f"/cp/j{number}", f"j{number}", name, program, number * 1000, listed)


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("orders", {}, True),
        ("orders", SCRIPT, True),
        ("orders", GRAPH, True),
        ("orders", ARGUMENTS, True),
        ("orders", SCRIPT | GRAPH, False),
        (DEFAULT_JOB_NAME, {}, True),
        (DEFAULT_JOB_NAME, SCRIPT, False),
        (DEFAULT_JOB_NAME, GRAPH, False),
        (DEFAULT_JOB_NAME, ARGUMENTS, False),
    ],
)
def test_which_job_is_a_run_of_a_program(name: str, other: dict[str, object], same: bool) -> None:
    found = job(name=name, program=replace(ORDERS, **other))  # type: ignore[arg-type]
    assert found.is_run_of(name, ORDERS) is same
    assert not found.is_run_of("another name", ORDERS)
    assert not found.is_run_of(name, Program()), "what nobody knows is not the same"
    if same:
        assert choose([job(2, "another"), found], name, ORDERS, "/cp") == found
    else:
        with pytest.raises(SnapshotError, match="found no checkpoint of this program"):
            choose([found], name, ORDERS, "/cp")


def test_nothing_is_known_of_checkpoints_that_name_no_program() -> None:
    for name in ("orders", DEFAULT_JOB_NAME):
        assert not job(name=name, program=Program()).is_run_of(name, ORDERS)
        assert not job(name=name, program=Program()).is_run_of(name, Program())


def test_without_any_job_there_is_nothing_to_go_on_from() -> None:
    with pytest.raises(SnapshotError) as caught:
        choose([], DEFAULT_JOB_NAME, ORDERS, "/cp")
    assert str(caught.value) == (
        "'latest' found no checkpoint of this program ('Flink Streaming Job', /jobs/orders.py --topic a) in /cp: it "
        "never took one there, or it was cancelled or failed and kept none. Start it without -s"
    )


def test_others_are_listed_newest_first() -> None:
    jobs = [job(n, DEFAULT_JOB_NAME, replace(ORDERS, arguments=("--topic", f"t{n}"))) for n in (1, 3, 2)]
    with pytest.raises(SnapshotError) as caught:
        choose(jobs, DEFAULT_JOB_NAME, ORDERS, "/cp")
    lines = str(caught.value).splitlines()
    assert "script, arguments and graph must be the same" in lines[0]
    assert [line.split(":")[0] for line in lines[1:-1]] == ["  j3", "  j2", "  j1"]
    assert lines[1] == (
        "  j3: 'Flink Streaming Job', /jobs/orders.py --topic t3: /cp/j3/chk-3 of 1970-01-01 00:00:03 UTC, ended"
    )
    assert "-s PATH" in lines[-1]
    assert "beadline.job-id" in lines[-1]


@pytest.mark.parametrize("count", [2, 5, 6, 300])
def test_several_runs_are_listed_and_never_more_than_fit(count: int) -> None:
    with pytest.raises(SnapshotError, match=f"could mean any of {count} jobs of this program") as caught:
        choose([job(n) for n in range(1, count + 1)], "orders", ORDERS, "/cp")
    lines = str(caught.value).splitlines()
    assert len(lines) <= 9, "the command adds the line of the program"
    assert f"/cp/j{count}/chk-{count} of" in lines[1]
    assert ("  … and 295 more" in lines) is (count == 300)
    assert "beadline savepoint dispose" in lines[-1]


def test_a_job_that_has_finished_is_one_of_several_too() -> None:
    with pytest.raises(SnapshotError, match=r"j2: 'orders', .*: 1970-01-01 00:00:02 UTC, finished"):
        choose([job(1), job(2, finished=True)], "orders", ORDERS, "/cp")
    refuse_finished(job(1))
    with pytest.raises(
        JobFinishedError, match=r"job 'orders' \(j2\) finished at 1970-01-01 00:00:02 UTC: there is noth"
    ):
        refuse_finished(choose([job(2, finished=True)], "orders", ORDERS, "/cp"))


def test_a_long_command_line_is_cut() -> None:
    long = replace(ORDERS, arguments=("x" * 5000,))
    with pytest.raises(SnapshotError) as caught:
        choose([job(1, program=long), job(2, program=long)], "orders", ORDERS, "/cp")
    assert max(map(len, str(caught.value).splitlines())) < 400


# -- on disk


@pytest.fixture
def directory(tmp_path: Path) -> CheckpointDirectory:
    return CheckpointDirectory(str(tmp_path))


@pytest.fixture
def storage(directory: CheckpointDirectory) -> FileJobStorage:
    return FileJobStorage(directory, "a")


def trace(job_id: str, program: Program = ORDERS, epoch: int = 1, **more: Any) -> Trace:
    return Trace(job_id, "orders", program, 5000, epoch, **more)


def test_the_program_is_part_of_a_checkpoint(directory: CheckpointDirectory, storage: FileJobStorage) -> None:
    storage.write(make_snapshot(1, storage.prepare(), "a", program=ORDERS))
    (found,) = directory.jobs()
    assert (found.program, found.snapshot.program) == (ORDERS, ORDERS)
    assert found.line().endswith("2023-11-14 22:13:20 UTC, ended")


def test_jobs_that_can_not_be_read_are_listed_as_such(directory: CheckpointDirectory, storage: FileJobStorage) -> None:
    pointer = storage.write(make_snapshot(1, storage.prepare(), "a", program=ORDERS)).pointer
    os.truncate(f"{pointer}/_metadata", 100)
    (found,) = directory.jobs()
    assert found.line() == f"a: {pointer} can't be read"
    assert not found.is_run_of("necklace", ORDERS)
    with pytest.raises(
        SnapshotError, match=r"none of the checkpoints in .*/a can be read: .*chk-1/_metadata is cut short"
    ):
        _ = found.snapshot


def test_the_list_says_whose_driver_is_alive(directory: CheckpointDirectory, storage: FileJobStorage) -> None:
    storage.hold(Lease.acquire(storage.folder, "anna"))
    storage.write(make_snapshot(1, storage.prepare(), "a", program=ORDERS))
    (found,) = directory.jobs()
    assert "UTC, runs: anna since 20" in found.line()
    lease = Path(storage.folder, "lease-1")
    noted = lease.read_text()
    lease.write_text(noted.replace(json.loads(noted)["process"]["place"], "another-machine"))
    assert "UTC, last run elsewhere by anna since 20" in found.line()
    lease.write_text(noted)
    storage.let_go()
    assert found.line().endswith("its driver is dead")
    storage.release()
    assert found.line().endswith("ended")


def test_a_trace_comes_back_and_a_later_driver_makes_it_void(
    directory: CheckpointDirectory, storage: FileJobStorage
) -> None:
    folder = storage.folder
    Lease.acquire(folder)
    write_trace(folder, trace("a"))
    assert read_trace(folder) == trace("a")
    (found,) = directory.jobs()
    assert (found.has_finished, found.job_id, found.name, found.program, found.time) == (
        True,
        "a",
        "orders",
        ORDERS,
        5000,
    )
    # A driver that finished but was fenced says so too late: the job goes on in another one.
    Lease.acquire(folder)
    assert read_trace(folder) is None
    (Path(folder) / "ended").write_text("{")
    assert read_trace(folder) is None


def test_a_trace_counts_more_than_checkpoints_that_nobody_could_remove(
    directory: CheckpointDirectory, storage: FileJobStorage
) -> None:
    """The driver died after it had finished, while it cleaned up."""
    storage.acquire()
    storage.write(make_snapshot(1, storage.prepare(), "a", program=ORDERS))
    storage.leave_trace(trace("a"))
    (found,) = directory.jobs()
    assert found.has_finished


def test_a_job_that_stops_sends_everybody_to_its_savepoint(
    directory: CheckpointDirectory, storage: FileJobStorage
) -> None:
    """What it stopped with may be visible, and the older checkpoint would bring it again."""
    storage.acquire()
    storage.write(make_snapshot(1, storage.prepare(), "a", program=ORDERS))
    storage.note_stop(trace("a", savepoint="/sp/savepoint-a-1", checkpoint=2))
    assert read_trace(storage.folder) == trace("a", savepoint="/sp/savepoint-a-1", checkpoint=2)
    (found,) = directory.jobs()
    assert found.line().endswith("stopped with /sp/savepoint-a-1")
    with pytest.raises(SnapshotError, match="Go on from the savepoint with -s /sp/savepoint-a-1"):
        refuse_finished(found)
    storage.leave_trace(trace("a", savepoint="/sp/savepoint-a-1"))
    (found,) = directory.jobs()
    with pytest.raises(JobFinishedError, match="go on from there with -s /sp/savepoint-a-1"):
        refuse_finished(found)


def test_a_job_that_went_on_has_not_stopped(directory: CheckpointDirectory, storage: FileJobStorage) -> None:
    """It failed when it published, and its next checkpoint holds more than the savepoint."""
    storage.acquire()
    storage.note_stop(trace("a", savepoint="/sp/savepoint-a-1", checkpoint=2))
    newer = storage.write(make_snapshot(3, storage.prepare(), "a", program=ORDERS))
    (found,) = directory.jobs()
    assert found.newest is not None
    assert found.newest.pointer == newer.pointer
    storage.discard(newer.pointer)
    assert read_trace(storage.folder) is not None
    storage.forget_stop()
    assert directory.jobs() == []


def test_a_driver_that_takes_a_job_while_it_stops(directory: CheckpointDirectory, storage: FileJobStorage) -> None:
    """It had found a checkpoint to go on from before the other one noted the stop."""
    storage.acquire()
    storage.write(make_snapshot(1, storage.prepare(), "a", program=ORDERS))
    storage.note_stop(trace("a", savepoint="/sp/savepoint-a-1", checkpoint=2))
    for epoch in (2, 3):
        taker = FileJobStorage(directory, "a")
        taker.acquire()
        assert taker.epoch == epoch
        with pytest.raises(SnapshotError, match="-s /sp/savepoint-a-1"):
            taker.refuse_if_stopped()
        assert read_trace(storage.folder) is not None, "the next one must find it too"


def test_a_fenced_driver_does_not_stop_the_job(directory: CheckpointDirectory, storage: FileJobStorage) -> None:
    storage.acquire()
    FileJobStorage(directory, "a").acquire()
    with pytest.raises(Fenced):
        storage.note_stop(trace("a", savepoint="/sp/savepoint-a-1", checkpoint=2))


def test_a_trace_of_an_earlier_version(directory: CheckpointDirectory, storage: FileJobStorage) -> None:
    storage.acquire()
    write_trace(storage.folder, trace("a"))
    path = Path(storage.folder, "ended")
    written = json.loads(path.read_text())
    del written["savepoint"], written["checkpoint"]
    path.write_text(json.dumps(written))
    assert read_trace(storage.folder) == trace("a")


def test_a_job_that_stops_is_left_alone_while_its_driver_is_at_it(
    directory: CheckpointDirectory, storage: FileJobStorage
) -> None:
    storage.acquire()
    storage.note_stop(trace("a", savepoint="/sp/savepoint-a-1", checkpoint=2))
    job_begins(directory, "new", "orders", ORDERS)
    assert read_trace(storage.folder) is not None
    storage.let_go()
    job_begins(directory, "new", "orders", ORDERS)
    assert os.listdir(directory.path) == []


def test_nobody_waits_for_drivers_of_other_programs(
    directory: CheckpointDirectory, storage: FileJobStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was killed in another container is watched for seconds; every job of the directory would do that."""
    storage.acquire()
    storage.note_stop(trace("a", savepoint="/sp/savepoint-a-1", checkpoint=2))
    storage.let_go()
    lease = Path(storage.folder, "lease-1")
    lease.write_text(json.dumps({**json.loads(lease.read_text()), "process": None}))
    watched: list[Holder] = []
    monkeypatch.setattr(holder, "_moves", lambda holder, pause: watched.append(holder) or False)
    job_begins(directory, "new", "orders", replace(ORDERS, script="/jobs/other.py", graph="other"))
    assert watched == []
    assert read_trace(storage.folder) is not None
    job_begins(directory, "new", "orders", ORDERS)
    assert len(watched) == 1
    assert os.listdir(directory.path) == []


def test_traces_do_not_pile_up(directory: CheckpointDirectory, storage: FileJobStorage) -> None:
    def leave(*traces: Trace) -> None:
        for each in traces:
            os.mkdir(directory.job_folder(each.job_id))
            leave_trace(directory, each)

    leave(trace("a"), trace("b"))
    assert os.listdir(directory.path) == ["b"], "both are runs of one program"
    other = replace(ORDERS, script="/jobs/other.py", graph="other")
    leave(trace("c", other), trace("mine", chosen_id=True))
    assert sorted(os.listdir(directory.path)) == ["c", "mine"]
    job_begins(directory, "new", "orders", ORDERS)
    assert sorted(os.listdir(directory.path)) == ["c", "mine"], "a job whose id was chosen is another one"
    job_begins(directory, "new", "orders", other)
    assert os.listdir(directory.path) == ["mine"]


def test_a_note_goes_with_all_that_is_left(directory: CheckpointDirectory, storage: FileJobStorage) -> None:
    """Without the note the checkpoints of a job that died while it cleaned up would be ones to go on from."""
    storage.acquire()
    storage.write(make_snapshot(1, storage.prepare(1), "a", program=ORDERS))
    write_trace(storage.folder, trace("a"))
    job_begins(directory, "new", "orders", ORDERS)
    assert os.listdir(directory.path) == []


def test_where_another_job_may_come_no_epoch_is_taken_twice(directory: CheckpointDirectory) -> None:
    folder = directory.job_folder("orders")
    zombie = take_over(directory.path, "paused", "orders")
    last = take_over(directory.path, "last", "orders")
    assert last.remove(comes_again=True) is False
    assert sorted(os.listdir(folder)) == ["fence-2", "lease-2"]
    assert Lease.acquire(folder, "next").epoch == 3
    # The paused driver wakes in the middle of publishing: its checkpoint is none of the next job.
    late = place_in(directory.path, "orders")
    late.write(make_snapshot(1, late.prepare(1), "orders", epoch=1))
    assert directory.completed("orders") == []
    assert directory.jobs() == []
    with pytest.raises(Exception, match="epoch 3 is held by next"):
        zombie.check()
