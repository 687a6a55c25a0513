"""Functions and pieces of programs, driven by hand and without Spark."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypedDict

import xxhash

from beadline.api.function import (
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    MapFunction,
    ReduceFunction,
)
from beadline.api.output_tag import OutputTag
from beadline.api.process import CoProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction, ProcessFunction
from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import SnapshotKind
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.common import Configuration
from beadline.common.typeinfo import TypeInformation, Types
from beadline.connectors.source import Watermark
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.data_stream import DataStream
from beadline.errors import ConfigurationError, TypeMismatchError
from beadline.graph.plan import Plan
from beadline.graph.specs import CollectSpec, FunctionSpec, SourceSpec
from beadline.master.definition import JobSettings
from beadline.runtime.exchange.gate import MIN_WATERMARK
from beadline.state.backend_settings import BackendSettings
from beadline.state.key_groups import default_max_parallelism
from beadline.testing.rounds import PushSource
from beadline.testing.stepwise import SteppedJob

_METHODS: tuple[tuple[tuple[type[Function], ...], str], ...] = (
    ((ProcessFunction, KeyedProcessFunction, CoProcessFunction, KeyedCoProcessFunction), "process"),
    ((MapFunction, CoMapFunction), "map"),
    ((FlatMapFunction, CoFlatMapFunction), "flat_map"),
    ((FilterFunction,), "filter"),
    ((ReduceFunction,), "reduce"),
)
_OF_TWO = (CoMapFunction, CoFlatMapFunction, CoProcessFunction, KeyedCoProcessFunction)
_UNTYPED = ("filter", "reduce")
_JOB = "harness"
_MAIN = "main output"


class HarnessOptions(TypedDict, total=False):
    """What :class:`Harness` takes apart from its function."""

    parallelism: int
    max_parallelism: int | None
    input_type: TypeInformation | Sequence[TypeInformation] | None
    output_type: TypeInformation | None
    side_outputs: Sequence[OutputTag]
    configuration: Configuration | None


class Harness:
    """Runs a function element by element::

        with Harness(Split()) as harness:
            assert harness.push("to be") == ["to", "be"]

    Every call is a step of a job whose tasks, state and checks are the real ones: what a function keeps, sends or
    registers goes through the same code as on Spark. As there, the function is copied when the harness is made; it is
    the copy that works.

    If user code raises, the call raises a :class:`JobExecutionError`, and everything is as it was before the call.

    :param function: a function, or a callable that is handed the input streams and gives the resulting stream:
        ``lambda numbers: numbers.map(double).filter(is_small)``
    :param side_outputs: the tags that :meth:`side_outputs` will be asked for, of the last operator; of others nothing
        is kept
    :param input_type: the type of what is pushed, or one for each input
    :param configuration: settings and job parameters, as an environment takes them
    """

    def __init__(
        self,
        function: Function | Callable[..., DataStream],
        *,
        parallelism: int = 1,
        max_parallelism: int | None = None,
        input_type: TypeInformation | Sequence[TypeInformation] | None = None,
        output_type: TypeInformation | None = None,
        side_outputs: Sequence[OutputTag] = (),
        configuration: Configuration | None = None,
    ) -> None:
        if isinstance(function, type):
            raise TypeMismatchError(f"a function object is needed, got the class {function.__name__}: add ()")
        self._function = function
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism or default_max_parallelism(parallelism)
        self._number_of_inputs = self._count_inputs()
        self._input_types = _for_each(input_type, self._number_of_inputs)
        self._output_type = output_type
        self._tags = tuple(side_outputs)
        self._configuration = configuration
        self._backend_settings = BackendSettings.from_configuration(configuration or Configuration())
        self._folder = tempfile.mkdtemp(prefix="beadline-harness-")
        weakref.finalize(self, shutil.rmtree, self._folder, True)
        self._job = self._make_job(self._make_plan())
        self._now = 0
        self._last_snapshot = 0
        self._warnings: list[str] = []
        self._out: dict[str, list[tuple[Any, int | None]]] = {}

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {type(self._function).__name__}, parallelism {self._parallelism}: "
            f"{len(self.outputs())} outputs after {self._job.truth.step} steps>"
        )

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the functions, unless :meth:`end_input` has done so."""
        self._job.close()

    # -- the program

    def _count_inputs(self) -> int:
        if isinstance(self._function, Function):
            return 2 if isinstance(self._function, _OF_TWO) else 1
        return len(inspect.signature(self._function).parameters)

    def _make_plan(self) -> Plan:
        env = StreamExecutionEnvironment(self._configuration)
        env.set_parallelism(self._parallelism).set_max_parallelism(self._max_parallelism)
        inputs = []
        for number, type_info in enumerate(self._input_types):
            node = env._add_node(f"input {number + 1}", SourceSpec(PushSource()), type_info, [])
            node.single = node.never_chained = True
            # The uids of operators after it follow from its own: they are to be those in snapshots that users keep.
            node.uid_hash = xxhash.xxh3_128_hexdigest(f"{number}|InputSpec".encode())
            inputs.append(env._stream(node))
        result = self._apply(self._with_keys(inputs))
        _tap(result, _MAIN)
        for tag in self._tags:
            _tap(result.get_side_output(tag), tag.tag_id)
        return env._plan(_JOB)

    def _make_job(self, plan: Plan, restore: str | None = None, now: int = 0) -> SteppedJob:
        rocks = self._backend_settings.rocks
        backend = replace(
            self._backend_settings, rocks=replace(rocks, directories=rocks.directories or (self._folder,))
        )
        return SteppedJob(plan, JobSettings(backend=backend), restore, now)

    def _with_keys(self, inputs: list[DataStream]) -> list[DataStream]:
        return inputs

    def _apply(self, inputs: list[DataStream]) -> DataStream:
        function = self._function
        if not isinstance(function, Function):
            result = function(*inputs)
            if not isinstance(result, DataStream):
                raise TypeMismatchError(f"the harness's callable must return a stream, got {result!r}")
            return result
        stream: Any = inputs[0] if len(inputs) == 1 else inputs[0].connect(inputs[1])
        method = _method_for(function)
        if not hasattr(stream, method):
            raise TypeMismatchError(f"a {type(function).__name__} needs a keyed stream: use KeyedHarness")
        arguments = (function,) if method in _UNTYPED else (function, self._output_type)
        applied: DataStream = getattr(stream, method)(*arguments)
        return applied.name(type(function).__name__).uid("function")

    # -- what comes in

    def push(self, value: Any, timestamp: int | None = None, input: int = 1) -> list[Any]:
        """Let one element come in, and give what goes out for it.

        :param input: 1 or 2, for functions of two inputs
        """
        return self.push_all([value], None if timestamp is None else [timestamp], input)

    def push_all(self, values: Iterable[Any], timestamps: Iterable[int] | None = None, input: int = 1) -> list[Any]:
        """Let several elements come in within one step."""
        values = list(values)
        times = None if timestamps is None else list(timestamps)
        if times is not None and len(times) != len(values):
            raise ConfigurationError(f"there are {len(values)} elements and {len(times)} timestamps")
        return self._step({self._input_node(input): [[(values, times)]]}) if values else []

    def advance_watermark(self, watermark: int, input: int | None = None) -> list[Any]:
        """Move event time on, on one input or on all. Timers up to the watermark fire."""
        numbers = range(1, self._number_of_inputs + 1) if input is None else [input]
        return self._step({self._input_node(number): [[Watermark(watermark)]] for number in numbers})

    def advance_processing_time(self, now: int) -> list[Any]:
        """Move the clock on, which starts at 0. Timers up to then fire."""
        if now < self._now:
            raise ConfigurationError(f"processing time is {self._now} and can't go back to {now}")
        self._now = now
        return self._step({})

    def end_input(self) -> list[Any]:
        """End all inputs: event time reaches its end, the functions are closed, and nothing more can be pushed."""
        return self._step({}, ended=None)

    def _input_node(self, number: int) -> int:
        if not 1 <= number <= self._number_of_inputs:
            raise ConfigurationError(
                f"there is no input {number}: they are numbered from 1 to {self._number_of_inputs}"
            )
        return self._job.plan.levels[0][number - 1]

    def _step(self, splits: dict[int, list[Any]], **more: Any) -> list[Any]:
        if self._job.has_ended:
            raise ConfigurationError("the input of this harness has ended; restore a snapshot or make a new harness")
        before = len(self._out.get(_MAIN, ()))
        acks = self._job.step(splits, self._now, **more)
        for ack in (subtask for task in acks for subtask in task.subtasks):
            self._warnings += ack.warnings
            self._warnings += [f"{name} is a field that changed and is in no snapshot" for name in ack.changed_fields]
            spec = self._job.plan.nodes[ack.node].spec
            if isinstance(spec, CollectSpec):
                self._out.setdefault(spec.collector, []).extend(ack.collected)
        return [value for value, _ in self._out.get(_MAIN, ())[before:]]

    # -- what has gone out

    def outputs(self) -> list[Any]:
        """All that has gone out since the start or the last :meth:`restore`."""
        return [value for value, _ in self._out.get(_MAIN, ())]

    def timed_outputs(self) -> list[tuple[Any, int | None]]:
        """The same as pairs of element and timestamp, None for elements without one."""
        return list(self._out.get(_MAIN, ()))

    def side_outputs(self, tag: OutputTag) -> list[Any]:
        """What has gone to a side output, which must be among those that the harness was made with."""
        if tag.tag_id not in {known.tag_id for known in self._tags}:
            raise ConfigurationError(f"side output '{tag.tag_id}' is not kept: make the harness with side_outputs=[…]")
        return [value for value, _ in self._out.get(tag.tag_id, ())]

    @property
    def processing_time(self) -> int:
        return self._now

    @property
    def warnings(self) -> list[str]:
        """What a job would warn of, such as fields of a function that change and are in no snapshot."""
        return list(self._warnings)

    # -- failure and change

    def snapshot(self) -> bytes:
        """All state and timers as a checkpoint holds them; may be kept in a file for tests of later versions."""
        taken = self._job.snapshot(self._folder)
        self._last_snapshot = taken.step
        return metadata.encode(replace(taken, kind=SnapshotKind.SAVEPOINT), _JOB)

    def notify_checkpoint_complete(self) -> list[Any]:
        """Tell the functions that the last snapshot is a completed checkpoint."""
        return self._step({}, news=((self._last_snapshot,), ()))

    def notify_checkpoint_aborted(self) -> list[Any]:
        """Tell the functions that the last snapshot was given up."""
        return self._step({}, news=((), (self._last_snapshot,)))

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of this harness, or of one with an earlier version of the function or with another
        parallelism. The functions are made anew, and :meth:`outputs` starts empty.

        Watermarks come back only if the parallelism is the same; otherwise event time starts again, as in a job.
        """
        self._go_on(self._job.plan, snapshot)
        self._out.clear()

    def rescale(self, parallelism: int) -> None:
        """Take a snapshot and go on from it with another parallelism; :meth:`outputs` goes on too."""
        before, self._parallelism = self._parallelism, parallelism
        try:
            self._go_on(self._make_plan(), self.snapshot())
        except BaseException:
            self._parallelism = before
            raise

    def _go_on(self, plan: Plan, snapshot: bytes) -> None:
        folder = tempfile.mkdtemp(prefix="restored-", dir=self._folder)
        with open(os.path.join(folder, metadata.METADATA), "wb") as file:
            file.write(snapshot)
        held = read_snapshot(folder)
        now = max(self._now, held.timestamp)
        job = self._make_job(plan, folder, now)
        self._job.close()
        self._job, self._now, self._last_snapshot = job, now, held.step

    def lose_worker(self) -> None:
        """Forget every function and every cached piece of state, as when Spark loses a worker: the next call makes
        them anew. Nothing that matters may change by it."""
        self._job.lose_worker()


class _WithTimestamp(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        timestamp = ctx.timestamp()
        yield value, None if timestamp == MIN_WATERMARK else timestamp


def _tap(stream: DataStream, name: str) -> None:
    timed = stream._apply(f"tap on {name}", FunctionSpec("process", _WithTimestamp(), keyed=False, end=True), None)
    timed._apply(name, CollectSpec(name), None)


def _method_for(function: Function) -> str:
    for kinds, method in _METHODS:
        if isinstance(function, kinds):
            return method
    raise TypeMismatchError(
        f"a harness can't tell how to apply a {type(function).__name__}: give it a callable that makes the stream, "
        "such as lambda stream: stream.window(…).aggregate(…)"
    )


def _for_each(type_info: Any, count: int) -> list[TypeInformation]:
    if type_info is None:
        return [Types.PICKLED_BYTE_ARRAY()] * count
    types = list(type_info) if isinstance(type_info, list | tuple) else [type_info] * count
    if len(types) != count:
        raise ConfigurationError(f"there are {count} inputs and {len(types)} input types")
    return types
