"""Functions live as long as their worker and subtask; their fields are not state."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from beadline.common import Types
from beadline.datastream import KeyedProcessFunction, KeySelector, MapFunction, Partitioner, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor
from beadline.errors import JobExecutionError
from beadline.master.spark import engine as master_spark

from .jobs import collect, environment

pytestmark = pytest.mark.usefixtures("spark")


def note(path: str, what: str, subtask: int) -> None:
    with open(path, "a") as log:
        log.write(f"{what} {os.getpid()} {subtask}\n")


class Logged(MapFunction):
    """Writes down when it is opened and closed, where."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        note(self.path, "open", self.subtask)

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        note(self.path, "close", self.subtask)


def lines_of(path: Path) -> Counter[tuple[str, ...]]:
    return Counter(tuple(line.split()) for line in path.read_text().splitlines())


def steps_of(env: StreamExecutionEnvironment) -> list[Any]:
    reports: list[Any] = []
    env.add_step_listener(reports.append)
    return reports


def test_open_once_a_worker_and_subtask_and_close_as_often(tmp_path: Path) -> None:
    env = environment(step_records=20)
    steps = steps_of(env)
    log = tmp_path / "log"
    numbers = collect(env.from_sequence(1, 200).rebalance().map(Logged(log)))
    assert sorted(numbers) == list(range(1, 201))
    assert len(steps) >= 10
    seen = lines_of(log)
    opened = {line[1:]: times for line, times in seen.items() if line[0] == "open"}
    closed = {line[1:]: times for line, times in seen.items() if line[0] == "close"}
    assert set(opened.values()) == {1}, "opened again for a later step"
    assert {subtask for _, subtask in opened} == {"0", "1"}
    assert closed == opened


def test_key_selectors_and_partitioners_have_a_life_too(tmp_path: Path) -> None:
    class Selector(KeySelector):
        def __init__(self, path: Path) -> None:
            self.path = str(path)

        def open(self, runtime_context: Any) -> None:
            self.modulus = 3
            note(self.path, "open", 0)

        def get_key(self, value: Any) -> Any:
            return value % self.modulus

        def close(self) -> None:
            note(self.path, "close", 0)

    class Spread(Partitioner):
        def __init__(self, path: Path) -> None:
            self.path = str(path)

        def open(self, runtime_context: Any) -> None:
            note(self.path, "open-partitioner", 0)

        def partition(self, key: Any, num_partitions: int) -> int:
            return int(key % num_partitions)

    log = tmp_path / "log"
    env = environment(1)
    stream = env.from_sequence(1, 9).partition_custom(Spread(log), lambda v: v).map(lambda v: v)
    assert collect(stream.key_by(Selector(log)).reduce(lambda a, b: a + b))
    seen = Counter(line[0] for line in lines_of(log).elements())
    assert seen["open"] == seen["close"] == 1
    assert seen["open-partitioner"] == 1


def test_after_a_failure_the_function_is_thrown_away_unclosed(tmp_path: Path) -> None:
    class Fails(Logged):
        def map(self, value: Any) -> Any:
            raise ValueError(value)

    log = tmp_path / "log"
    with pytest.raises(JobExecutionError):
        collect(environment(1).from_collection([1]).map(Fails(log)))
    assert {line[0] for line in lines_of(log)} == {"open"}


def test_an_error_in_open_and_one_in_close_fail_the_job() -> None:
    class FailsInOpen(Logged):
        def open(self, runtime_context: Any) -> None:
            raise ValueError("no connection")

    class FailsInClose(Logged):
        def open(self, runtime_context: Any) -> None:
            pass

        def close(self) -> None:
            raise ValueError("still busy")

    for function, message in ((FailsInOpen(Path()), "no connection"), (FailsInClose(Path()), "still busy")):
        with pytest.raises(JobExecutionError, match=message) as caught:
            collect(environment(1).from_collection([1]).map(function).name("unlucky"))
        assert caught.value.operator == "unlucky"


def test_a_field_that_changes_is_reported_once_by_name(caplog: pytest.LogCaptureFixture) -> None:
    class Remembers(KeyedProcessFunction):
        def __init__(self) -> None:
            self.count = 0
            self.seen: list[int] = []
            self.constant = {"a": 1}

        def open(self, runtime_context: Any) -> None:
            self.state = runtime_context.get_state(ValueStateDescriptor("s", Types.INT()))

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.count += 1
            self.seen.append(value)
            self.state.update(value)
            yield value

    env = environment(1, step_records=10)
    with caplog.at_level("WARNING", "beadline"):
        collect(env.from_sequence(1, 50).key_by(lambda v: v % 2).process(Remembers()).name("remembers"))
    warnings = [r.getMessage() for r in caplog.records if "Fields are not state" in r.getMessage()]
    assert sorted(w.split("the field ")[1].split()[0] for w in warnings) == ["Remembers.count", "Remembers.seen"]
    assert all("operator 'remembers'" in w and "get_state" in w for w in warnings)


def test_state_and_timers_of_one_step_are_there_in_the_next() -> None:
    class Counts(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> Any:
            if self.count.value() is None:
                ctx.timer_service().register_event_time_timer(1 << 60)
            self.count.update((self.count.value() or 0) + 1)
            return ()

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.get_current_key(), self.count.value()

    env = environment(2, step_records=30)
    steps = steps_of(env)
    counts = collect(env.from_sequence(0, 299).key_by(lambda v: v % 7).process(Counts()))
    assert sorted(counts) == [(key, len(range(key, 300, 7))) for key in range(7)]
    assert len(steps) >= 10


def test_metrics_are_counted_once_over_all_steps() -> None:
    class Measured(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.elements = runtime_context.get_metrics_group().add_group("mine").counter("elements")

        def map(self, value: Any) -> Any:
            self.elements.inc()
            return value

    env = environment(2, step_records=25)
    env.from_sequence(1, 100).map(Measured()).filter(lambda v: v < 0).print()
    result = env.execute()
    assert result.get_accumulator_result("mine.elements") == 100


# -- print() in functions


class Loud(MapFunction):
    def open(self, runtime_context: Any) -> None:
        print("opened")

    def map(self, value: int) -> int:
        print("user", value)
        return value

    def close(self) -> None:
        print("closed", end="")


def test_user_lines_come_with_their_step_and_before_the_results_they_led_to(capfd: Any) -> None:
    env = environment(1, step_records=2)
    env.from_collection([1, 2, 3, 4]).map(Loud()).print("sink")
    env.execute()
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "opened"
    # A step that goes on in another worker opens the function again.
    results = ["user 1", "user 2", "sink> 1", "sink> 2", "user 3", "user 4", "sink> 3", "sink> 4", "closed"]
    assert [line for line in lines if line != "opened"] == results


def test_what_was_printed_before_a_failure_is_shown_and_results_are_not(capfd: Any) -> None:
    def fail_at_two(value: int) -> int:
        print("before", value)
        return 1 // (value - 2)

    env = environment(1)
    env.from_collection([1, 2, 3]).map(lambda value: print("upstream", value) or value).key_by(lambda value: 0).map(
        fail_at_two, Types.INT()
    ).print()
    with pytest.raises(JobExecutionError, match="ZeroDivisionError"):
        env.execute()
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["upstream 1", "upstream 2", "upstream 3", "before 1", "before 2"]


def test_a_worker_that_dies_makes_nobody_print_twice(capfd: Any, tmp_path: Any) -> None:
    marker = str(tmp_path / "died")

    def die_once(value: int) -> int:
        print("user", value)
        if value == 3 and not os.path.exists(marker):
            with open(marker, "w"):
                pass
            os._exit(1)
        return value

    env = environment(1)
    env.from_collection([1, 2, 3]).map(die_once).print()
    env.execute()
    assert capfd.readouterr().out.splitlines() == ["user 1", "user 2", "user 3", "1", "2", "3"]


# -- nothing grows


def test_closures_stay_small_whatever_functions_capture(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    make = master_spark._function

    def measured(call: Any) -> Any:
        function = make(call)
        sizes.append(len(cloudpickle.dumps(function)))
        return function

    monkeypatch.setattr(master_spark, "_function", measured)
    ballast = os.urandom(5 << 20)
    env = environment(2, step_records=500)
    stream = env.from_sequence(1, 5000).map(lambda v: v + len(ballast)).key_by(lambda v: v % 200)
    assert len(collect(stream.reduce(lambda a, b: a + b + 0 * len(ballast)))) == 5000
    assert len(sizes) >= 20
    assert max(sizes) < 100_000


class Remembers(KeyedProcessFunction):
    """Keeps a long text for every key, so that deltas pile up."""

    def open(self, runtime_context: Any) -> None:
        from beadline.common import Types
        from beadline.datastream.state import ValueStateDescriptor

        self.text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.text.update(str(value) * 50)
        return ()


@pytest.mark.slow
def test_segments_are_merged_and_their_files_deleted(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 steps over 400 keys: the state's size on disk stays near that of the keys, not of all that was written."""
    scratch = tempfile.mkdtemp()
    monkeypatch.setattr(tempfile, "tempdir", scratch)
    env = environment(2, step_records=100)
    sizes: list[int] = []
    files: list[int] = []

    def listen(report: Any) -> None:
        sizes.append(report.state_bytes)
        files.append(sum(len(names) for _, _, names in os.walk(scratch)))

    env.add_step_listener(listen)
    env.from_sequence(1, 6_000).key_by(lambda n: n % 400).process(Remembers()).print()
    env.execute()
    assert len(sizes) == 60
    first_full = sizes[3]
    assert max(sizes[30:]) < 8 * first_full, sizes
    assert max(files[30:]) <= max(files[:30]) + 4, files
    assert not any(Path(scratch).rglob("*.run"))
    assert not any(Path(scratch).rglob("*.pack"))
