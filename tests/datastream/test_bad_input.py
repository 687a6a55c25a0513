"""What goes wrong is said with the operator's name, the record or argument at fault, and what to do."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Row, Types, WatermarkStrategy
from beadline.datastream import (
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
)
from beadline.datastream.state import MapStateDescriptor, ValueStateDescriptor
from beadline.errors import (
    ConfigurationError,
    GraphError,
    JobExecutionError,
    SerializationError,
    TypeMismatchError,
    UnsupportedFeatureError,
)

from .jobs import collect, environment

pytestmark = pytest.mark.usefixtures("local_engine")


def failure_of(stream: Any) -> JobExecutionError:
    with pytest.raises(JobExecutionError) as caught:
        collect(stream)
    return caught.value


def line_of(text: str) -> int:
    """Where this file has it."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(number for number, line in enumerate(lines) if line.strip().startswith(text))


class Late(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        raise ValueError("too late")


def test_of_several_operators_of_one_name_the_line_tells_which_it_is() -> None:
    numbers = environment().from_sequence(1, 3).map(lambda v: v)
    checked = numbers.map(lambda v: 1 // (v - 2))

    error = failure_of(checked.map(lambda v: v))

    assert str(error).startswith(f"operator 'Map' (test_bad_input.py:{line_of('checked = ')}, subtask ")
    assert error.operator == "Map"


def test_the_operator_of_a_timer_a_key_and_a_source_has_its_line_too() -> None:
    keyed = environment().from_sequence(1, 3).key_by(lambda v: v)
    late = keyed.process(Late())
    unkeyed = environment().from_sequence(1, 3).key_by(lambda v: 1 // (v - 2)).map(lambda v: v)

    assert f"(test_bad_input.py:{line_of('late = ')}, subtask " in str(failure_of(late))
    assert f"(test_bad_input.py:{line_of('unkeyed = ')}, subtask " in str(failure_of(unkeyed))


class Returning(ProcessFunction):
    def __init__(self, result: Any) -> None:
        self.result = result

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        return self.result


class ReturningByKey(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        return "ab"


@pytest.mark.parametrize("keyed", [False, True])
def test_a_result_that_is_returned_instead_of_yielded(keyed: bool) -> None:
    numbers = environment().from_sequence(1, 3)

    error = failure_of((numbers.key_by(lambda v: v) if keyed else numbers).flat_map(lambda v: v + 1))

    assert "TypeError: the function returned one int, and it must give any number of results" in str(error)
    assert "use yield instead of return" in str(error)
    assert "use yield instead of return" in str(failure_of(numbers.process(Returning(1.5))))


def test_an_error_of_the_functions_own_loop_is_left_as_it_is() -> None:
    error = failure_of(environment().from_sequence(1, 3).flat_map(lambda v: [w + 1 for w in v]))

    assert "TypeError: 'int' object is not iterable" in str(error)


def test_a_text_that_is_returned_comes_out_in_characters_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    numbers = environment(1).from_sequence(1, 1)

    assert collect(numbers.process(Returning("ab"))) == ["a", "b"]
    assert collect(numbers.key_by(lambda v: v).process(ReturningByKey())) == ["a", "b"]

    for name in ("PROCESS", "KEYED PROCESS"):
        [told] = [text for text in caplog.messages if text.startswith(f"operator '{name}' (test_bad_input.py:")]
        assert "use yield instead of return" in told


def test_a_job_without_a_sink(caplog: pytest.LogCaptureFixture) -> None:
    env = environment()
    env.from_sequence(1, 3).map(lambda v: v)
    env.execute()
    assert any("the job has no sink: what comes out of 'Map' (test_bad_input.py:" in text for text in caplog.messages)

    caplog.clear()
    env.from_sequence(1, 3).print()
    env.execute()
    assert not any("no sink" in text for text in caplog.messages)


@pytest.mark.parametrize("engine", ["local_engine", "spark_engine"])
def test_a_function_that_raises_is_named_with_its_record(engine: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(engine)
    env = environment()
    error = failure_of(env.from_collection([1, 2, 0, 4]).map(lambda v: 10 // v).name("divide"))
    assert error.operator == "divide"
    assert error.record == "0"
    assert "ZeroDivisionError" in str(error)
    assert "10 // v" in (error.user_traceback or "")


def test_a_failure_behind_two_exchanges_is_the_one_reported() -> None:
    env = environment()
    stream = env.from_collection(list(range(20))).key_by(lambda v: v % 3).map(lambda v: v + 1).name("first")
    error = failure_of(stream.key_by(lambda v: v % 2).map(lambda v: {}[v]).name("second"))
    assert error.operator == "second"
    assert "KeyError" in str(error)


def test_a_timer_that_raises_names_its_time() -> None:
    class Raises(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(7)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            raise ValueError("too late")

    error = failure_of(environment().from_collection(["k"]).key_by(lambda v: v).process(Raises()).name("timers"))
    assert error.operator == "timers (timer at 7)"
    assert error.record == "'k'"


@pytest.mark.usefixtures("spark_engine")
def test_a_job_that_failed_leaves_the_session_usable() -> None:
    failure_of(environment().from_collection([0]).map(lambda v: 1 // v))
    assert collect(environment().from_collection([1]).map(lambda v: v + 1)) == [2]


def test_a_function_that_cannot_be_pickled() -> None:
    lock = threading.Lock()

    def locked(value: int) -> int:
        with lock:
            return value

    with pytest.raises(SerializationError, match=r"operator 'guarded'.*open\(\)"):
        collect(environment().from_collection([1]).map(locked).name("guarded"))


def test_a_value_that_cannot_be_pickled() -> None:
    env = environment()
    stream = env.from_collection([1]).map(lambda v: threading.Lock()).name("locks").rebalance().map(lambda v: v)
    error = failure_of(stream)
    assert error.operator == "locks"
    assert "pickle" in str(error)


def test_a_state_value_that_cannot_be_pickled() -> None:
    class Holds(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.state = runtime_context.get_state(ValueStateDescriptor("lock", Types.PICKLED_BYTE_ARRAY()))

        def map(self, value: Any) -> Any:
            self.state.update(threading.Lock())
            return value

    error = failure_of(environment().from_collection([1]).key_by(lambda v: v).map(Holds()).name("holder"))
    assert error.operator == "holder"
    assert "pickle" in str(error)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Types.INT(), "seven"),
        (Types.INT(), 1 << 31),
        (Types.STRING(), 7),
        (Types.BOOLEAN(), 1),
        (Types.TUPLE([Types.STRING(), Types.INT()]), ("a", "b")),
        (Types.ROW([Types.STRING()]), Row("a", "b")),
    ],
)
def test_a_wrong_value_for_a_declared_type(declared: Any, value: Any) -> None:
    error = failure_of(environment().from_collection([1]).map(lambda v: value, output_type=declared).name("typed"))
    assert error.operator == "typed"
    assert "not of its declared type" in str(error)
    assert repr(value if not isinstance(value, tuple) else value[1]) in str(error)


def test_a_wrong_element_of_a_collection_is_named_at_once() -> None:
    with pytest.raises(TypeMismatchError, match=r"element 1.*'two'"):
        environment().from_collection([1, "two"], type_info=Types.INT())


def test_a_wrong_value_for_a_declared_state() -> None:
    class Wrong(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.state = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

        def map(self, value: Any) -> Any:
            self.state.update("text")
            return value

    error = failure_of(environment().from_collection([1]).key_by(lambda v: v).map(Wrong()).name("adds"))
    assert error.operator == "adds"
    assert "state 'total'" in str(error)


def test_state_off_a_keyed_stream() -> None:
    class WantsState(MapFunction):
        def open(self, runtime_context: Any) -> None:
            runtime_context.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.INT()))

        def map(self, value: Any) -> Any:
            return value

    error = failure_of(environment().from_collection([1]).map(WantsState()).name("stateful"))
    assert "This state is only accessible by functions executed on a KeyedStream" in str(error)
    assert "'stateful'" in str(error)


def test_timers_off_a_keyed_stream() -> None:
    class WantsTimers(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(1)

    error = failure_of(environment().from_collection([1]).process(WantsTimers()).name("timed"))
    assert "Register timers is only supported on a keyed stream" in str(error)


def test_parallelism_over_max_parallelism() -> None:
    stream = environment().from_collection([1]).key_by(lambda v: v).map(lambda v: v).name("wide")
    stream.set_parallelism(4).set_max_parallelism(2)
    with pytest.raises(ConfigurationError, match="'wide': parallelism 4 is higher than its max parallelism 2"):
        collect(stream)


@pytest.mark.parametrize(
    "use",
    [
        lambda env: env.from_collection([1]).add_sink(object()),
        lambda env: env.from_collection([1]).sink_to(object()),
        lambda env: env.add_source(object()),
        lambda env: env.from_source(object(), WatermarkStrategy.no_watermarks(), "s"),
    ],
)
def test_what_is_not_supported_says_so(use: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"\w"):
        use(environment())


def test_options_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    env = environment(execution__checkpointing__cleaner__parallel_mode="false")
    env.get_checkpoint_config().set_force_unaligned_checkpoints()
    with caplog.at_level("WARNING", "beadline"):
        collect(env.from_collection([1]).map(lambda v: v))
    assert "execution.checkpointing.cleaner.parallel_mode" in caplog.text
    assert "execution.checkpointing.unaligned.forced" in caplog.text


def test_jars_are_said_to_be_unnecessary(caplog: pytest.LogCaptureFixture) -> None:
    env = environment(pipeline__jars="file:///lib/flink-sql-connector-kafka-3.2.0.jar;file:///lib/other.jar")
    env.add_jars("file:///connector.jar")
    with caplog.at_level("INFO", "beadline"):
        collect(env.from_collection([1]).map(lambda v: v))
    told = [record for record in caplog.records if "need no jars" in record.message]
    assert [record.levelname for record in told] == ["INFO"]
    assert "connector.jar, flink-sql-connector-kafka-3.2.0.jar, other.jar" in told[0].message


def test_an_unknown_option_of_ours_is_refused() -> None:
    env = environment(beadline__step__recrods=5)
    with pytest.raises(ConfigurationError, match=r"unknown options: beadline\.step\.recrods"):
        collect(env.from_collection([1]).map(lambda v: v))


def test_a_class_in_place_of_an_object() -> None:
    class Doubles(MapFunction):
        def map(self, value: Any) -> Any:
            return value * 2

    with pytest.raises(TypeMismatchError, match=r"did you mean Doubles\(\)"):
        environment().from_collection([1]).map(Doubles)  # type: ignore[arg-type]


def test_a_keyed_function_on_a_stream_without_key() -> None:
    class Keyed(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None: ...

    with pytest.raises(TypeMismatchError, match="takes a ProcessFunction"):
        environment().from_collection([1]).process(Keyed())  # type: ignore[arg-type]


def test_one_tag_with_two_types() -> None:
    stream = environment().from_collection([1]).map(lambda v: v)
    stream.get_side_output(OutputTag("late", Types.INT()))
    with pytest.raises(GraphError, match="declared with two types"):
        stream.get_side_output(OutputTag("late", Types.STRING()))
