"""The harness for what stands behind ``key_by``: it can look into keyed state and timers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from beadline.api.function import Function, KeySelector
from beadline.api.state import ListState, MapState, ValueState
from beadline.api.state_descriptors import StateDescriptor
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.data_stream import DataStream
from beadline.errors import ConfigurationError
from beadline.graph.plan import Plan, PlanNode
from beadline.state.access.backend import KeyedBackend
from beadline.state.heap.timers import TimerTable
from beadline.state.key_groups import KeyRouter, key_group_range, unboxed
from beadline.state.store import Store, open_store
from beadline.testing.harness import Harness, HarnessOptions

Selector = Callable[[Any], Any] | KeySelector


@dataclass(frozen=True)
class Timer:
    """A timer that waits.

    :ivar window: of operators whose timers belong to a window as well, the window; a time window is ``(start, end)``
    """

    timestamp: int
    key: Any
    window: Any = None


class KeyedHarness(Harness):
    """Runs a function behind ``key_by``, element by element, and looks into its state::

        with KeyedHarness(Count(), lambda word: word) as harness:
            assert harness.push("a") == [("a", 1)]
            assert harness.state(ValueStateDescriptor("count", Types.LONG()), "a") == 1

    See :class:`Harness` for its other parameters, and for pushing, time, outputs, snapshots and failures.

    :param function: a function, or a callable that is handed the keyed streams and gives the resulting stream:
        ``lambda words: words.window(…).reduce(…)``
    :param key_selector: gives the key of an element; for two inputs a pair of them, of which one may be None for an
        input without a key (a broadcast stream)
    :param key_type: the type of the key
    """

    def __init__(
        self,
        function: Function | Callable[..., DataStream],
        key_selector: Selector | Sequence[Selector | None],
        *,
        key_type: TypeInformation | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        self._selectors: list[Any] = list(key_selector) if isinstance(key_selector, list | tuple) else [key_selector]
        self._key_type = key_type
        self._stores: dict[tuple[int, int], Store] = {}
        super().__init__(function, **options)

    def __enter__(self) -> KeyedHarness:
        return self

    def _with_keys(self, inputs: list[DataStream]) -> list[DataStream]:
        if len(inputs) != len(self._selectors):
            raise ConfigurationError(f"there are {len(inputs)} inputs and {len(self._selectors)} key selectors")
        return [
            stream if selector is None else stream.key_by(selector, self._key_type)
            for stream, selector in zip(inputs, self._selectors, strict=True)
        ]

    def _go_on(self, plan: Plan, snapshot: bytes) -> None:
        super()._go_on(plan, snapshot)
        self._stores.clear()

    # -- state

    def state(self, descriptor: StateDescriptor, key: Any, operator: str | None = None) -> Any:
        """What a state holds for a key, as user code would see it: a value, a list, a dict, or the result of a fold.
        None, or empty, if there is nothing.

        :param operator: the name of the operator, if the harness runs several that are keyed
        """
        node = self._keyed_node(operator)
        slot, subtask = self._route(node, key)
        with self._job.looking():
            backend = self._backend(node, subtask)
            handle = backend.state(descriptor)
            backend.scope.slot = slot
            if isinstance(handle, ValueState):
                return handle.value()
            if isinstance(handle, ListState):
                return list(handle.get())
            if isinstance(handle, MapState):
                return dict(handle.items())
            return handle.get()

    def keys(self, descriptor: StateDescriptor, operator: str | None = None) -> list[Any]:
        """The keys that have an entry in a state."""
        node = self._keyed_node(operator)
        found = []
        with self._job.looking():
            for subtask in range(node.parallelism):
                found += [unboxed(slot) for slot, _ in self._backend(node, subtask).entries(descriptor)]
        return found

    def num_keyed_entries(self, operator: str | None = None) -> int:
        """How many entries there are, over all states and keys; a list or map counts once a key."""
        count = 0
        with self._job.looking():
            for backend, store in self._backends(operator):
                timers = len(backend.event_timers.base) + len(backend.processing_timers.base)
                count += store.count() - timers
        return count

    def subtask_of(self, key: Any, operator: str | None = None) -> int:
        """Which subtask owns a key."""
        return self._route(self._keyed_node(operator), key)[1]

    # -- timers

    def event_time_timers(self, operator: str | None = None) -> list[Timer]:
        """The timers that wait for a watermark, the earliest first."""
        return self._timers(operator, lambda backend: backend.event_timers)

    def processing_time_timers(self, operator: str | None = None) -> list[Timer]:
        """The timers that wait for the clock, the earliest first."""
        return self._timers(operator, lambda backend: backend.processing_timers)

    def num_event_time_timers(self, operator: str | None = None) -> int:
        return len(self.event_time_timers(operator))

    def num_processing_time_timers(self, operator: str | None = None) -> int:
        return len(self.processing_time_timers(operator))

    def _timers(self, operator: str | None, table_of: Callable[[KeyedBackend], TimerTable]) -> list[Timer]:
        found = []
        with self._job.looking():
            for table in [table_of(backend) for backend, _ in self._backends(operator)]:
                for timestamp, slots in table.base.items():
                    for slot in slots:
                        key, window = slot if table.namespaced else (slot, None)
                        found.append(Timer(timestamp, unboxed(key), window))
        return sorted(found, key=lambda timer: timer.timestamp)

    # -- looking into the last sealed version

    def _keyed_node(self, operator: str | None) -> PlanNode:
        nodes = [node for node in self._job.plan.nodes.values() if node.keyed]
        named = [node for node in nodes if operator is None or node.name == operator]
        if len(named) != 1:
            names = ", ".join(f"'{node.name}'" for node in nodes) or "none"
            wanted = f"named '{operator}'" if operator is not None else "to look into; say operator='…'"
            raise ConfigurationError(f"there is not one keyed operator {wanted}. The keyed operators are: {names}")
        return named[0]

    def _route(self, node: PlanNode, key: Any) -> tuple[Any, int]:
        if self._key_type is not None:
            convert = self._key_type.converter()
            key = key if convert is None else convert(key)
        return KeyRouter(node.parallelism, node.max_parallelism).route(key)

    def _backends(self, operator: str | None) -> list[tuple[KeyedBackend, Store]]:
        node = self._keyed_node(operator)
        return [(self._backend(node, i), self._stores[node.id, i]) for i in range(node.parallelism)]

    def _backend(self, node: PlanNode, subtask: int) -> KeyedBackend:
        """A backend over state that is read as a worker would read it. Nobody takes what is changed through it."""
        place = (node.id, subtask)
        groups = key_group_range(subtask, node.parallelism, node.max_parallelism)
        handle = self._job.handle(*place)
        assert handle is not None
        self._stores[place] = open_store(self._stores.get(place), handle, groups)
        backend = KeyedBackend(node.name)
        backend.begin(self._stores[place], self._now, node.spec.windowed)
        return backend
