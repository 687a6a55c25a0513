"""Every way in which a job can end while Spark lives, under each retention: what is kept, and how it is told."""

from __future__ import annotations

import gc
import logging
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.ends import End
from beadline.checkpoint.ownership.holder import holder_of
from beadline.common import JobStatus, Types, WatermarkStrategy
from beadline.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor
from beadline.errors import JobExecutionError
from beadline.master import life
from beadline.master.client import signals
from beadline.master.client.control import JobSuspended
from tests.recovery.jobs import Numbers

from .jobs import environment

pytestmark = pytest.mark.usefixtures("engine")

NONE, DELETE, RETAIN = "NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"
PATIENCE = 120.0


class Endless(Numbers):
    """Counts up to a thousand, and waits for more."""

    bounded = False

    def __init__(self) -> None:
        super().__init__(1000)


class Unreachable(Numbers):
    """Its driver's side finds nobody to ask."""

    def initialOffset(self) -> dict[str, int]:
        raise ConnectionError("nobody answers")


class Counts(KeyedProcessFunction):
    """Counts by key; fails when a file is there."""

    def __init__(self, failure: Path) -> None:
        self._failure = str(failure)

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        if Path(self._failure).exists():
            raise ValueError("it was to fail")
        time.sleep(0.002)
        self._count.update((self._count.value() or 0) + 1)
        yield self._count.value()


class Job:
    """A job that counts without end, and has completed two checkpoints."""

    def __init__(self, folder: Path, retention: str, source: Numbers | None = None, **options: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.env = self.environment(folder, retention, **options)
        self.stream(self.env, folder, source or Endless()).print()
        self.client = self.env.execute_async(retention)
        self.master: Any = self.client._control._master  # type: ignore[attr-defined]

    @staticmethod
    def environment(folder: Path, retention: str, **options: str) -> StreamExecutionEnvironment:
        return environment(
            1,
            **{
                "beadline.step.first-records": "20",
                "beadline.step.max-records": "20",
                "execution.checkpointing.interval": "50 ms",
                "execution.checkpointing.dir": str(folder / "checkpoints"),
                "execution.checkpointing.externalized-checkpoint-retention": retention,
                "restart-strategy.type": "none",
                **options,
            },
        )

    @staticmethod
    def stream(env: StreamExecutionEnvironment, folder: Path, source: Numbers) -> DataStream:
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        counted = numbers.key_by(lambda value: value[0] % 3, Types.LONG())
        return counted.process(Counts(folder / "fail"), Types.LONG()).uid("counts").filter(lambda count: count < 0)

    def wait_for_checkpoints(self) -> Job:
        until = time.monotonic() + PATIENCE
        while sum(stats["status"] == "COMPLETED" for stats in self.client.get_checkpoint_statistics()) < 2:
            assert not self.master.wait(0), self.master.error
            assert time.monotonic() < until
            time.sleep(0.01)
        return self

    def wait(self) -> Any:
        """What its client hears in the end."""
        assert self.master.wait(PATIENCE), self.master
        try:
            return self.client.get_job_execution_result().result()
        except BaseException as error:
            return error

    @property
    def left(self) -> list[Path]:
        """Its checkpoints, newest last."""
        found = [path.parent for path in self.folder.glob("checkpoints/*/chk-*/_metadata")]
        return sorted(found, key=lambda path: int(path.name[4:]))


def finish(job: Job) -> None:
    """The source has an end."""


def stop(job: Job) -> None:
    job.client.stop_with_savepoint(False, str(job.folder / "savepoints")).result()


def cancel(job: Job) -> None:
    job.client.cancel().result()


def fail(job: Job) -> None:
    (job.folder / "fail").touch()


def suspend(job: Job) -> None:
    job.master.suspend()


def suspend_at_once(job: Job) -> None:
    job.master.suspend()
    job.master.suspend(at_once=True)


ENDS: list[tuple[Callable[[Job], None], End, JobStatus, type, set[str]]] = [
    (finish, End.FINISHED, JobStatus.FINISHED, object, set()),
    (stop, End.STOPPED, JobStatus.FINISHED, object, set()),
    (cancel, End.CANCELLED, JobStatus.CANCELED, JobExecutionError, {RETAIN}),
    (fail, End.FAILED, JobStatus.FAILED, JobExecutionError, {DELETE, RETAIN}),
    (suspend, End.SUSPENDED, JobStatus.SUSPENDED, JobSuspended, {NONE, DELETE, RETAIN}),
    (suspend_at_once, End.SUSPENDED, JobStatus.SUSPENDED, JobSuspended, {NONE, DELETE, RETAIN}),
]


@pytest.mark.parametrize(
    ("act", "end", "status", "hears", "kept"),
    [pytest.param(*each, marks=pytest.mark.spark if each[0] in (finish, suspend) else ()) for each in ENDS],
    ids=[act.__name__ for act, *_ in ENDS],
)
def test_what_each_end_leaves(
    act: Callable[[Job], None],
    end: End,
    status: JobStatus,
    hears: type,
    kept: set[str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "beadline")
    source = Numbers(100) if act is finish else None
    jobs = {retention: Job(tmp_path / retention, retention, source) for retention in (NONE, DELETE, RETAIN)}
    for job in jobs.values():
        job.wait_for_checkpoints()
        act(job)
    for retention, job in jobs.items():
        heard = job.wait()
        assert isinstance(heard, hears), heard
        assert (job.master.end, job.master.status) == (end, status)
        assert bool(job.left) == job.master.kept == (retention in kept), (retention, job.left)
        assert bool(list(job.folder.glob("savepoints/*"))) == (act is stop)
        if job.left:
            assert job.master.last_checkpoint == str(job.left[-1])
            assert holder_of(str(job.left[-1].parent)) is None, "its lease says that it has ended"
            assert any(f"-s {job.left[-1]} (or -s latest)" in said for said in caplog.messages)
        else:
            note = {"ended"} if status is JobStatus.FINISHED else set()
            assert {path.name for path in job.folder.glob("checkpoints/*/*")} == note
        if hears is JobSuspended:
            assert heard.code == (0 if act is suspend else 143)
    if act is suspend:
        # It goes on where it was told to end, and ends there.
        large = {"beadline.step.first-records": "1000", "beadline.step.max-records": "1000"}
        job = Job(tmp_path / NONE, NONE, Numbers(1000), **{"execution.state-recovery.path": "latest", **large})
        job.wait()
        assert job.master.home.start is not None
        assert (job.master.end, job.left) == (End.FINISHED, [])


def test_closing_the_iterator_cancels_and_an_interrupt_suspends(tmp_path: Path) -> None:
    def first(folder: Path, then: Callable[[], None]) -> Any:
        folder.mkdir()
        env = Job.environment(folder, NONE)
        numbers = env.from_source(Endless(), WatermarkStrategy.no_watermarks(), "numbers")
        with numbers.execute_and_collect() as results:
            next(results)
            master = results._client._master
            then()
        return master

    def interrupt() -> None:
        raise KeyboardInterrupt

    master = first(tmp_path / "closed", lambda: None)
    assert (master.end, list((tmp_path / "closed").glob("checkpoints/*"))) == (End.CANCELLED, [])
    with pytest.raises(KeyboardInterrupt):
        first(tmp_path / "interrupted", interrupt)
    (left,) = (tmp_path / "interrupted").glob("checkpoints/*/chk-*")
    assert holder_of(str(left.parent)) is None


def test_a_job_without_durable_checkpoints_is_cancelled(tmp_path: Path) -> None:
    job = Job(tmp_path, RETAIN, **{"execution.checkpointing.dir": "", "execution.checkpointing.storage": "jobmanager"})
    job.wait_for_checkpoints()
    suspend(job)
    heard = job.wait()
    assert isinstance(heard, JobSuspended)
    assert heard.code == 143
    assert job.master.status is JobStatus.CANCELED


def test_a_last_checkpoint_that_can_not_be_taken_leaves_the_older_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(tmp_path, NONE).wait_for_checkpoints()
    fail(job)
    suspend(job)
    assert isinstance(job.wait(), JobSuspended | JobExecutionError)
    if job.master.end is End.SUSPENDED:  # else it had failed before it was told to end
        assert job.left
        assert any("no last checkpoint could be taken: " in said for said in caplog.messages)


def test_a_job_that_does_not_begin_touches_nothing(tmp_path: Path) -> None:
    job = Job(tmp_path, NONE).wait_for_checkpoints()
    suspend(job)
    job.wait()
    left = job.left
    again = Job(tmp_path, NONE, Unreachable(10), **{"execution.state-recovery.path": "latest"})
    assert isinstance(again.wait(), ConnectionError)
    assert again.master.end is End.NEVER_BEGAN
    assert again.left == left
    # It begins, but comes to nothing: what it was to go on from is as good as before.
    fail(job)
    again = Job(tmp_path, NONE, **{"execution.state-recovery.path": "latest"})
    assert isinstance(again.wait(), JobExecutionError)
    assert again.master.end is End.NEVER_BEGAN
    assert again.left == left
    assert holder_of(str(left[-1].parent)) is None


# -- what is heard of signals


def handlers() -> tuple[Any, Any]:
    return signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)


@pytest.fixture
def no_other_jobs() -> None:
    """Jobs of earlier tests that nobody waited for have ended, and the handlers of signals are those of before them."""
    gc.collect()
    until = time.monotonic() + 30
    for job in list(life.jobs):
        job.suspend(at_once=True)
    while life.jobs:
        assert time.monotonic() < until, list(life.jobs)
        time.sleep(0.01)
    signals.guard.step_back()


def handlers_during_a_job() -> set[Any]:
    seen: list[Any] = []
    env = environment(1)
    env.add_step_listener(lambda report: seen.append(handlers()))
    env.from_sequence(1, 3).print()
    env.execute()
    assert seen
    return set(seen)


def test_handlers_are_those_of_before_when_the_job_has_ended(no_other_jobs: None) -> None:
    before = handlers()
    seen = handlers_during_a_job()
    assert before[0] is signal.SIG_DFL
    assert all(during[0] not in before and during[1] not in before for during in seen), (before, seen)
    assert handlers() == before


def test_a_handler_of_the_program_stays(no_other_jobs: None) -> None:
    def mine(number: int, frame: Any) -> None:
        pass

    before = handlers()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, mine)
    try:
        assert handlers_during_a_job() == {(mine, mine)}
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)


def test_a_job_of_another_thread_sets_no_handlers(no_other_jobs: None) -> None:
    before = handlers()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(handlers_during_a_job).result(PATIENCE) == {before}
