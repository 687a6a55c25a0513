"""Windows of a keyed stream, and of a whole one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from beadline.api.function import AggregateFunction, CallableReduceFunction, ReduceFunction
from beadline.api.output_tag import OutputTag
from beadline.api.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from beadline.api.windows.assigner import MergingWindowAssigner, WindowAssigner
from beadline.api.windows.trigger import Trigger
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.data_stream import DataStream
from beadline.datastream.streams.functions import PositionReduce
from beadline.datastream.streams.operator_settings import check_function, check_process_function
from beadline.errors import ConfigurationError, GraphError, TypeMismatchError
from beadline.graph.specs import WindowSpec

if TYPE_CHECKING:
    from beadline.datastream.stream_execution_environment import StreamExecutionEnvironment


class _Windowed:
    """What windows of keyed and of whole streams share."""

    _functions: tuple[type[Any], type[Any]]
    _unkeyed: bool

    def __init__(self, stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        self._assigner = window_assigner
        if not isinstance(window_assigner, WindowAssigner):
            raise TypeMismatchError(
                f"a WindowAssigner such as TumblingEventTimeWindows.of(…) is needed, got {window_assigner!r}"
            )
        self._stream = stream
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Any = None
        self._lateness = 0
        self._late_tag: OutputTag | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._assigner!r}>"

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        return self._stream.get_type()

    def trigger(self, trigger: Trigger[Any, Any]) -> Any:
        """When windows are evaluated, instead of the assigner's default."""
        if not isinstance(trigger, Trigger):
            raise TypeMismatchError(f"trigger() takes a Trigger, got {trigger!r}")
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise GraphError(
                f"{trigger!r} can't merge, so it can't be used with the merging windows of {self._assigner!r}"
            )
        self._trigger = trigger
        return self

    def evictor(self, evictor: Any) -> Any:
        """Which elements are taken out of a window before or after it is evaluated. Keeps all elements of a window."""
        for method in ("evict_before", "evict_after"):
            if not callable(getattr(evictor, method, None)):
                raise TypeMismatchError(f"evictor() takes an Evictor, got {evictor!r}")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: int) -> Any:
        """How long after its end a window still takes elements; each makes it fire again."""
        if isinstance(time_ms, bool) or not isinstance(time_ms, int) or time_ms < 0:
            raise ConfigurationError(f"the allowed lateness is a number of milliseconds, 0 or more, got {time_ms!r}")
        self._lateness = time_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Any:
        """Elements that are too late go to this side output instead of being dropped."""
        self._late_tag = output_tag
        return self

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Fold the elements of a window as they come: one value per window is kept, not the elements."""
        check_function(reduce_function, ReduceFunction)
        fold = (
            reduce_function if isinstance(reduce_function, ReduceFunction) else CallableReduceFunction(reduce_function)
        )
        result = output_type if output_type is not None or window_function is not None else self.get_input_type()
        return self._apply(fold, window_function, result)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Any = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Fold the elements of a window into an accumulator as they come."""
        check_process_function(aggregate_function, AggregateFunction, "aggregate() of a window")
        return self._apply(aggregate_function, window_function, output_type)

    def sum(self, position: int | str = 0) -> DataStream:
        """The sum of one field over each window; the other fields are the first element's."""
        return self.reduce(PositionReduce("sum", position))

    def min(self, position: int | str = 0) -> DataStream:
        """The smallest value of one field over each window; the other fields are the first element's."""
        return self.reduce(PositionReduce("min", position))

    def max(self, position: int | str = 0) -> DataStream:
        """The largest value of one field over each window; the other fields are the first element's."""
        return self.reduce(PositionReduce("max", position))

    def min_by(self, position: int | str = 0) -> DataStream:
        """The element with the smallest field in each window; of equal ones the earlier."""
        return self.reduce(PositionReduce("min_by", position))

    def max_by(self, position: int | str = 0) -> DataStream:
        """The element with the largest field in each window; of equal ones the earlier."""
        return self.reduce(PositionReduce("max_by", position))

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Evaluate all elements of a window at once."""
        check_process_function(window_function, self._functions[0], "apply() of a window")
        return self._apply(None, window_function, output_type)

    def process(self, process_window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Evaluate all elements of a window at once, with the clocks and with state."""
        check_process_function(process_window_function, self._functions[1], "process() of a window")
        return self._apply(None, process_window_function, output_type)

    def _apply(
        self, fold: Any, function: Any, output_type: TypeInformation | None, name: str | None = None
    ) -> DataStream:
        if function is not None:
            check_process_function(function, self._functions, "a window")
        if self._evictor is not None and fold is not None:
            # An evictor looks at elements, so the fold can only run when the window is evaluated.
            function, fold = FoldThen(fold, function, self._unkeyed), None
        trigger = self._trigger if self._trigger is not None else self._assigner.get_default_trigger(self._stream._env)
        spec = WindowSpec(
            self._assigner,
            trigger,
            fold,
            function,
            self._evictor,
            self._lateness,
            self._late_tag.tag_id if self._late_tag is not None else None,
            self._unkeyed,
        )
        # By default it has the name that PyFlink gives it, whatever is done with the elements.
        result = self._stream._apply(name or type(self._assigner).__name__, spec, output_type)
        if self._late_tag is not None:
            result._edges[0].source.side_types[self._late_tag.tag_id] = self._late_tag.type_info
        return result


class WindowedStream(_Windowed):
    """Windows per key: ``stream.key_by(…).window(TumblingEventTimeWindows.of(Time.seconds(5)))``."""

    _functions = (WindowFunction, ProcessWindowFunction)
    _unkeyed = False


class AllWindowedStream(_Windowed):
    """Windows over a whole stream; they are evaluated in one subtask."""

    _functions = (AllWindowFunction, ProcessAllWindowFunction)
    _unkeyed = True

    def __init__(self, stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(stream.key_by(_same_key), window_assigner)

    def _apply(
        self, fold: Any, function: Any, output_type: TypeInformation | None, name: str | None = None
    ) -> DataStream:
        return super()._apply(fold, function, output_type, name).force_non_parallel()


def _same_key(_: Any) -> int:
    return 0


class FoldThen(WindowFunction[Any, Any, Any, Any]):
    """Folds the elements of a window when it is evaluated, then hands the result to a window function, if there is
    one."""

    def __init__(self, fold: Any, function: Any, unkeyed: bool) -> None:
        self._fold = fold
        self._function = function
        self._unkeyed = unkeyed

    def open(self, runtime_context: Any) -> None:
        for function in (self._fold, self._function):
            if function is not None:
                function.open(runtime_context)

    def close(self) -> None:
        for function in (self._fold, self._function):
            if function is not None:
                function.close()

    def process(self, *arguments: Any) -> Any:
        elements = list(arguments[-1])
        if not elements:
            return ()
        folded = self._folded(elements)
        if self._function is None:
            return [folded]
        context = arguments[-2]
        if hasattr(self._function, "process"):
            return self._function.process(*arguments[:-1], [folded])
        key = () if self._unkeyed else (arguments[0],)
        return self._function.apply(*key, context.window(), [folded])

    def _folded(self, elements: list[Any]) -> Any:
        if isinstance(self._fold, AggregateFunction):
            accumulator = self._fold.create_accumulator()
            for element in elements:
                accumulator = self._fold.add(element, accumulator)
            return self._fold.get_result(accumulator)
        result = elements[0]
        for element in elements[1:]:
            result = self._fold.reduce(result, element)
        return result

    def clear(self, context: Any) -> None:
        clear = getattr(self._function, "clear", None)
        if clear is not None:
            clear(context)

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        raise AssertionError("evaluated through process()")
