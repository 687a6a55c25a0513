"""The graph that the user's calls build, and what its nodes do: plain data, turned into operators by the runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from beadline.api.function import Function
from beadline.api.state_descriptors import MapStateDescriptor
from beadline.common import WatermarkStrategy
from beadline.common.typeinfo import TypeInformation


class _WithFunctions:
    """Has user functions in some fields."""

    _function_fields: ClassVar[tuple[str, ...]] = ("function",)

    def functions(self) -> list[Function]:
        """The user's functions that have a life cycle: not plain callables."""
        found = (getattr(self, name, None) for name in self._function_fields)
        return [function for function in found if isinstance(function, Function)]


class Spec(_WithFunctions):
    """Base of all specs.

    :cvar keyed: whether the operator has state and timers by key
    :cvar windowed: whether its timers belong to a key and a window
    """

    keyed: bool = False
    windowed: bool = False


@dataclass(frozen=True)
class SourceSpec(Spec):
    """Reads splits that the driver plans, with a reader made by ``source``.

    :ivar source: an object with the reader contract of ``beadline.connectors.source``
    :ivar typed: the source gives values of its declared type by itself, they need no conversion
    """

    source: Any
    typed: bool = False


@dataclass(frozen=True)
class FunctionSpec(Spec):
    """Applies a user function.

    :ivar shape: ``map``, ``flat_map``, ``filter``, ``process``, ``reduce``, and ``co_`` forms for two inputs
    :ivar end: it stands for the end of a chain: what reaches it must fit its declared type
    """

    shape: str
    function: Any
    keyed: bool
    batch: bool = False
    end: bool = False


@dataclass(frozen=True)
class BroadcastSpec(Spec):
    """Processes a stream (input 0) together with a broadcast one (input 1)."""

    function: Any
    descriptors: tuple[MapStateDescriptor, ...]
    keyed: bool = False


@dataclass(frozen=True)
class WindowSpec(Spec):
    """Groups elements by key and window, and evaluates windows when their trigger says so.

    :ivar fold: a ReduceFunction or AggregateFunction that keeps one accumulator per window, None to keep the elements
    :ivar function: what evaluates a window, None to emit the fold's result as it is
    :ivar late_tag: the side output of elements that are too late, None to drop them
    :ivar unkeyed: the windows of a whole stream: functions see no key
    """

    _function_fields = ("function", "fold")
    assigner: Any
    trigger: Any
    fold: Any
    function: Any
    evictor: Any = None
    allowed_lateness: int = 0
    late_tag: str | None = None
    unkeyed: bool = False
    keyed: bool = True
    windowed: bool = True


@dataclass(frozen=True)
class JoinWindowSpec(WindowSpec):
    """Windows over two inputs: an element enters its window as ``(number of its input, element)``.

    :ivar function: hands the two groups to the user's function, which is its field ``user_function``
    """

    def functions(self) -> list[Function]:
        function = self.function.user_function
        return [function] if isinstance(function, Function) else []


@dataclass(frozen=True)
class IntervalJoinSpec(Spec):
    """Pairs elements of two keyed inputs whose timestamps lie near each other.

    :ivar lower: the right element's time is at least the left one's plus this, in milliseconds
    :ivar upper: and at most the left one's plus this
    :ivar late_tags: the side outputs of left and right elements that are too late, None to drop them
    """

    function: Any
    lower: int
    upper: int
    late_tags: tuple[str | None, str | None] = (None, None)
    keyed: bool = True
    windowed: bool = True


@dataclass(frozen=True)
class LookupSpec(Spec):
    """Joins elements with the rows of a table that every worker holds.

    :ivar table: gives ``index(on)``: the rows by the values of some columns
    :ivar on: a column, or several
    :ivar key: reads the values to look for off an element
    :ivar function: makes a result of an element and a row, None to emit them as a pair
    :ivar outer: whether an element without a row is joined with None
    """

    _function_fields = ("key", "function")
    table: Any
    on: str | tuple[str, ...]
    key: Any
    function: Any
    outer: bool


@dataclass(frozen=True)
class TimestampsSpec(Spec):
    """Assigns timestamps and makes watermarks.

    :ivar every: a watermark after this many records, counted over the whole stream and not over a step, so that what
        is late does not depend on how the stream was cut
    :ivar at_source: it is the strategy of a source, with which it forms one operator to the program: it learns from
        which part of the source records come, and is never cut off from it
    """

    strategy: WatermarkStrategy
    every: int
    at_source: bool = False


@dataclass(frozen=True)
class AsyncSpec(Spec):
    """Calls an asynchronous function, several records at a time; the fields are those of ``AsyncDataStream``."""

    function: Any
    timeout_ms: int
    capacity: int
    retry: Any


@dataclass(frozen=True)
class PrintSpec(Spec):
    """Prints on the driver's standard output."""

    identifier: str | None
    type_info: TypeInformation


@dataclass(frozen=True)
class CollectSpec(Spec):
    """Hands records to the program that waits for them."""

    collector: str


@dataclass(frozen=True)
class SinkSpec(Spec):
    """Stages records for a sink.

    :ivar sink: an object with the writer contract of ``beadline.connectors.sink``
    """

    sink: Any


@dataclass(frozen=True)
class CacheSpec(Spec):
    """Keeps the records of a stream for later jobs. Each job's plan has a source or a sink in its place.

    :ivar cache: a ``beadline.connectors.cache.Cache``
    """

    cache: Any


class Partitioning(_WithFunctions):
    """How records choose the subtask on the other side of an edge."""

    _function_fields = ("partitioner", "selector")


@dataclass(frozen=True)
class Forward(Partitioning):
    """Subtask i to subtask i. ``explicit`` if the user asked for it by name."""

    explicit: bool = False


@dataclass(frozen=True)
class Rebalance(Partitioning):
    """Round robin over all subtasks."""


@dataclass(frozen=True)
class Rescale(Partitioning):
    """Round robin over the subtasks of one's own share."""


@dataclass(frozen=True)
class Shuffle(Partitioning):
    """At random; the seed is the step's, so that a re-run repeats it."""


@dataclass(frozen=True)
class Broadcast(Partitioning):
    """To every subtask."""


@dataclass(frozen=True)
class Hash(Partitioning):
    """By key group."""

    selector: Any
    key_type: TypeInformation | None

    def select(self) -> Callable[[Any], Any]:
        get_key = getattr(self.selector, "get_key", None)
        return get_key if get_key is not None else self.selector  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Custom(Partitioning):
    """By the user's partitioner."""

    partitioner: Any
    selector: Any


@dataclass
class Edge:
    """Records of ``source`` (of its side output ``tag``, if any) that go to one input of a node."""

    source: Node
    partitioning: Partitioning
    tag: str | None = None
    input_index: int = 0


@dataclass
class Node:
    """One operator of the program, as declared.

    :ivar made_at: the line of the program that made it, ``job.py:17``
    """

    id: int
    name: str
    spec: Spec
    output_type: TypeInformation
    inputs: list[Edge] = field(default_factory=list)
    parallelism: int | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    uid_hash: str | None = None
    description: str | None = None
    starts_chain: bool = False
    never_chained: bool = False
    single: bool = False
    side_types: dict[str, TypeInformation] = field(default_factory=dict)
    made_at: str = ""

    def __repr__(self) -> str:
        return f"<Node {self.id} '{self.name}'>"
