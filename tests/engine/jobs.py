"""Jobs whose results have a closed form, and the accidents that befall them.

Numbers ``0 … records - 1`` are read ``STEP`` at a time, so that a number tells its step: ``n // STEP + 1``.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beadline.common import Configuration, Types
from beadline.datastream import (
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from beadline.datastream.state import ListStateDescriptor, ValueStateDescriptor
from beadline.master.reporting.news import StepReport

STEP = 100
KEYS = 10
ANY = Types.PICKLED_BYTE_ARRAY()
MINTED = OutputTag("minted", ANY)


# -- accidents


class Accident:
    """Something that happens once: to the first that creates the marker file, whatever is run again."""

    def __init__(self, marker: Path | str) -> None:
        self._marker = str(marker)

    def happens(self) -> bool:
        try:
            file = os.open(self._marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return False
        os.write(file, str(os.getpid()).encode())
        os.close(file)
        return True


def accidents(marker: Path | str, at: tuple[int, ...]) -> dict[int, Accident]:
    """One accident a number."""
    return {number: Accident(f"{marker}-{number}") for number in at}


def kill_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor() -> None:
    """Kill the JVM of this worker's executor: the parent of the daemon that forked the worker."""
    executor = parent_of(os.getppid())
    command = Path(f"/proc/{executor}/cmdline").read_bytes()
    assert b"CoarseGrainedExecutorBackend" in command, command
    os.kill(executor, signal.SIGKILL)
    kill_worker()


def parent_of(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1])


# -- functions


class PassOn(MapFunction):
    """Gives the number back. At some numbers, once each, the worker is killed."""

    def __init__(self, marker: Path, at: tuple[int, ...]) -> None:
        self._accidents = accidents(marker, at)

    def map(self, value: int) -> int:
        if value in self._accidents and self._accidents[value].happens():
            kill_worker()
        return value


class Count(KeyedProcessFunction):
    """Counts the records of a key. At some numbers, once each and after the state was updated, ``kill`` is called."""

    def __init__(
        self, marker: Path | str = "", at: tuple[int, ...] = (), kill: Callable[[], None] = kill_worker
    ) -> None:
        self._accidents = accidents(marker, at)
        self._kill = kill

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        if value in self._accidents and self._accidents[value].happens():
            self._kill()
        yield ctx.get_current_key(), count


class Gather(KeyedProcessFunction):
    """Changes a dict with a list in it where it lies, and calls ``update`` only for a new key.

    At some numbers, once each and after the change, the worker is killed.
    """

    def __init__(self, marker: Path | str = "", at: tuple[int, ...] = ()) -> None:
        self._accidents = accidents(marker, at)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._gathered = runtime_context.get_state(ValueStateDescriptor("gathered", ANY))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int, int]]:
        gathered = self._gathered.value()
        if gathered is None:
            gathered = {"numbers": [], "sum": 0}
            self._gathered.update(gathered)
        gathered["numbers"].append(value)
        gathered["sum"] += value
        if value in self._accidents and self._accidents[value].happens():
            kill_worker()
        yield ctx.get_current_key(), len(gathered["numbers"]), gathered["sum"]


class Mint(KeyedProcessFunction):
    """Gives every number an id, keeps it in state, and sends it on. At the end of input it tells what it kept.

    An id is made up at random, or it says which number of its key this was: then it depends on the order of arrival.
    """

    def __init__(self, at_random: bool) -> None:
        self._at_random = at_random

    def open(self, runtime_context: RuntimeContext) -> None:
        self._ids = runtime_context.get_list_state(ListStateDescriptor("ids", ANY))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, str]]:
        position = len(list(self._ids.get()))
        minted = uuid.uuid4().hex if self._at_random else f"{ctx.get_current_key()}-{position}"
        self._ids.add((value, minted))
        ctx.timer_service().register_event_time_timer(1)
        yield value, minted

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        for value, minted in self._ids.get():
            yield MINTED, ("minted", value, minted)


class Remember(KeyedProcessFunction):
    """Keeps the ids it sees, and tells them at the end of input.

    In some steps, once each, it kills its executor, when another subtask of its level has already finished this step
    there: executors of one core run one task behind the other.
    """

    def __init__(self, name: str, markers: Path, kill_in: tuple[int, ...]) -> None:
        self._name = name
        self._markers = str(markers)
        self._kill_in = kill_in

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()
        self._seen = runtime_context.get_list_state(ListStateDescriptor("seen", ANY))

    def process_element(self, value: tuple[int, str], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        step = value[0] // STEP + 1
        if step in self._kill_in and self._is_second_wave(step) and self._accident(step).happens():
            kill_executor()
        self._seen.add(value)
        ctx.timer_service().register_event_time_timer(1)
        yield f"{self._name} saw", *value

    def _accident(self, step: int) -> Accident:
        return Accident(f"{self._markers}/accident-{step}")

    def _is_second_wave(self, step: int) -> bool:
        folder, daemon = Path(self._markers), str(os.getppid())
        (folder / f"{step}-{self._subtask}-{daemon}").touch()
        return len(list(folder.glob(f"{step}-*-{daemon}"))) > 1

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        for value in self._seen.get():
            yield f"{self._name} kept", *value


# -- jobs


def key_of(number: int) -> int:
    return number % KEYS


def same(number: int) -> int:
    return number


def id_of(value: tuple[int, str]) -> str:
    return value[1]


@dataclass
class Outcome:
    """What a job that ended by itself gave, and how its steps went."""

    results: list[Any]
    reports: list[StepReport]

    @property
    def tries(self) -> list[int]:
        return [report.tries for report in self.reports]


def environment(parallelism: int = 2, options: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in {
        "beadline.step.first-records": str(STEP),
        "beadline.step.max-records": str(STEP),
        **(options or {}),
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def run(env: StreamExecutionEnvironment, stream: DataStream, name: str) -> Outcome:
    """Run to the end. A job that fails raises; steps are sealed once each and in order."""
    reports: list[StepReport] = []
    env.add_step_listener(reports.append)
    results = list(stream.execute_and_collect(name))
    assert [report.step for report in reports] == list(range(1, len(reports) + 1))
    return Outcome(results, reports)


def numbers(env: StreamExecutionEnvironment, records: int) -> DataStream:
    return env.from_sequence(0, records - 1)


def keyed(env: StreamExecutionEnvironment, records: int, function: KeyedProcessFunction) -> DataStream:
    """Two levels: numbers, and a function by key."""
    return numbers(env, records).key_by(key_of, key_type=Types.LONG()).process(function, output_type=ANY)


def minting(
    env: StreamExecutionEnvironment, records: int, at_random: bool, markers: Path, kill_in: tuple[int, ...]
) -> DataStream:
    """Three levels: numbers, ids for them, and two who remember the ids. What all of them know comes together."""
    minted = numbers(env, records).key_by(key_of, key_type=Types.LONG()).process(Mint(at_random), output_type=ANY)
    by_id = minted.key_by(id_of, key_type=Types.STRING())
    left = by_id.process(Remember("left", markers, kill_in), output_type=ANY)
    right = by_id.process(Remember("right", markers, ()), output_type=ANY)
    return minted.get_side_output(MINTED).union(left, right)


# In the first step, before anything is sealed; in the middle of one; and in the last, when everything is closed.
KILL_AT = (STEP // 2, 3 * STEP + STEP // 2, 6 * STEP - 1)
KILLED_WORKER_RECORDS = 6 * STEP

KILLED_WORKER_JOBS: dict[str, Callable[[StreamExecutionEnvironment, Path], DataStream]] = {
    "in_a_map": lambda env, marker: (
        numbers(env, KILLED_WORKER_RECORDS)
        .map(PassOn(marker, KILL_AT), output_type=Types.LONG())
        .key_by(key_of, key_type=Types.LONG())
        .process(Count(), output_type=ANY)
    ),
    "after_a_change_in_place": lambda env, marker: keyed(env, KILLED_WORKER_RECORDS, Gather(marker, KILL_AT)),
}


def run_with_killed_workers(job: str, folder: Path) -> Outcome:
    env = environment()
    return run(env, KILLED_WORKER_JOBS[job](env, folder / "accident"), job)


# -- closed forms


def counts(records: int) -> Counter[Any]:
    """What :class:`Count` gives: each key counts up, each count comes once."""
    return Counter((key, count) for key in range(KEYS) for count in range(1, records // KEYS + 1))


def gathered(records: int) -> Counter[Any]:
    """What :class:`Gather` gives: the i-th number of a key is ``key + (i - 1) * KEYS``, numbers come in order."""
    return Counter(
        (key, i, i * key + KEYS * i * (i - 1) // 2) for key in range(KEYS) for i in range(1, records // KEYS + 1)
    )


def results_of_killed_worker_job(job: str) -> Counter[Any]:
    return (gathered if job == "after_a_change_in_place" else counts)(KILLED_WORKER_RECORDS)
