"""A source with a script: records, and between them what is to happen there.

The driver cuts the script into steps, a task plays its part of it. A crash is remembered in a folder, not in an object:
the task that comes after it, in whatever process, finds that it has happened.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from beadline.connectors.source import BATCH, Position, StepSource
from beadline.errors import ConfigurationError, StepError
from beadline.state.codec import dumps, loads_trusted


class TestCrash(Exception):
    """What :class:`Crash` raises in the task."""

    __test__ = False  # for pytest, which takes classes of this name for tests


@dataclass(frozen=True)
class Crash:
    """The task fails here; when it comes here again, it goes on. The records before it in the same step are lost with
    the step, and come again.

    :param times: how many times it fails before it goes on
    :param kill: end the Python worker with SIGKILL instead of raising an exception: Beadline then runs the step again,
        which is no restart of the job. On the local engine, whose worker is your own process, only the step is lost
    """

    times: int = 1
    kill: bool = False

    def __post_init__(self) -> None:
        if self.times < 1:
            raise ConfigurationError(f"Crash(times={self.times}): it must crash at least once")


@dataclass(frozen=True)
class Pause:
    """The task sleeps here, each time it comes here."""

    seconds: float


@dataclass(frozen=True)
class EndStep:
    """The step ends here, and the records behind it belong to a later one."""


@dataclass(frozen=True)
class AwaitCheckpoint:
    """The step ends here, and nothing more is read before a checkpoint with all records up to here has completed. Put
    one before a :class:`Crash` to decide where the job goes on after it. Without checkpoints a job waits for ever."""


@dataclass(frozen=True)
class At:
    """A record with a timestamp in milliseconds. If one record of a source has a timestamp, all must."""

    value: Any
    timestamp: int


_CONTROLS = (Crash, Pause, EndStep, AwaitCheckpoint)
_SILENT = (EndStep, AwaitCheckpoint)


class TestSource(StepSource):
    """Reads a script: ``env.from_source(TestSource([1, 2, Crash(), 3]), WatermarkStrategy.no_watermarks(), "test")``.

    Records come in the order of the script, all through the first subtask of the source.

    :param script: records, and :class:`Crash`, :class:`Pause`, :class:`EndStep`, :class:`AwaitCheckpoint` between them
    :param bounded: whether the job ends behind the last record, or waits there until it is cancelled
    :param step: end a step after so many records, beside where the script says so
    :param markers: a folder that all workers reach, in which crashes are remembered; one that a second process is
        given too lets a resumed job know of the crashes of the first. A temporary one if left out
    """

    __test__ = False  # for pytest, which takes classes of this name for tests

    def __init__(
        self, script: Iterable[Any], bounded: bool = True, step: int | None = None, markers: str | None = None
    ) -> None:
        if step is not None and step < 1:
            raise ConfigurationError(f"TestSource(step={step}): a step has at least one record")
        self._script = list(script)
        self.bounded = bounded
        self._step = step
        self.timed = self._is_timed()
        if markers is None:
            markers = tempfile.mkdtemp(prefix="beadline-crashes-")
            weakref.finalize(self, shutil.rmtree, markers, True)
        else:
            os.makedirs(markers, exist_ok=True)
        self._markers = markers
        self._driver = os.getpid()
        self._committed = -1

    def __repr__(self) -> str:
        records = sum(not isinstance(element, _CONTROLS) for element in self._script)
        return f"<TestSource of {records} records, {self.crashes} crashes so far>"

    @property
    def crashes(self) -> int:
        """How many times a task has crashed on purpose."""
        return len(os.listdir(self._markers))

    def _is_timed(self) -> bool:
        records = [element for element in self._script if not isinstance(element, _CONTROLS)]
        timed = [record for record in records if isinstance(record, At)]
        if timed and len(timed) < len(records):
            plain = next(record for record in records if not isinstance(record, At))
            raise ConfigurationError(f"TestSource: some records have a timestamp, and {plain!r} has none: use At")
        return bool(timed)

    # -- on the driver

    def initial(self) -> Position:
        return {"index": 0}

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        first = index = self._behind_silence(start["index"])
        wanted = rows if self._step is None else min(rows, self._step)
        count = 0
        while index < len(self._script) and count < wanted:
            element = self._script[index]
            if isinstance(element, _SILENT):
                break
            count += not isinstance(element, _CONTROLS)
            index += 1
        if index == first and index < len(self._script):
            return start, []  # a checkpoint is awaited
        return {"index": self._behind_silence(index)}, [(first, index)] if index > first else []

    def _behind_silence(self, index: int) -> int:
        """Where the next record, pause or crash is, as far as checkpoints let it be read."""
        while index < len(self._script):
            element = self._script[index]
            if not isinstance(element, EndStep) and not (
                isinstance(element, AwaitCheckpoint) and self._committed >= index
            ):
                break
            index += 1
        return index

    def finished(self, position: Position) -> bool:
        return self.bounded and self._behind_silence(position["index"]) >= len(self._script)

    def commit(self, position: Position) -> None:
        # Between the position and the next record there may be ends of steps, which no step ever moves behind.
        self._committed = max(self._committed, self._behind_silence(position["index"]))

    def poll_interval(self) -> float:
        return 0.02

    # -- in tasks

    def read_batches(self, split: Any) -> Iterator[Any]:
        waiting: list[Any] = []
        for index in range(*split):
            element = self._script[index]
            if isinstance(element, _CONTROLS):
                if waiting:
                    yield self._batch(waiting)
                    waiting = []
                if isinstance(element, Pause):
                    time.sleep(element.seconds)
                elif isinstance(element, Crash):
                    self._crash(element, index)
                continue
            waiting.append(element)
            if len(waiting) == BATCH:
                yield self._batch(waiting)
                waiting = []
        if waiting:
            yield self._batch(waiting)

    def _batch(self, elements: list[Any]) -> Any:
        # A copy, so that a function that changes its input changes nothing for whoever reads the split again.
        copied = loads_trusted(dumps(elements))
        if self.timed:
            return [element.value for element in copied], [element.timestamp for element in copied]
        return copied

    def _crash(self, crash: Crash, index: int) -> None:
        for number in range(crash.times):
            try:
                with open(os.path.join(self._markers, f"element-{index}-crash-{number + 1}"), "x"):
                    pass
            except FileExistsError:
                continue
            told = f"crash {number + 1} of {crash.times} at element {index} of the script"
            if crash.kill and os.getpid() == self._driver:
                raise StepError(f"the worker is lost: {told}")  # it is the process of the program
            if crash.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise TestCrash(told)
