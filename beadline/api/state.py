"""The kinds of state that a function can read and write.

A handle comes from the runtime context in ``open`` and always shows the entry of the current key. What it holds is part
of every checkpoint. A value that was read may be changed in place only if it is written back afterwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Anything that can be forgotten with :meth:`clear`."""

    @abstractmethod
    def clear(self) -> None:
        """Removes the entry of the current key."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T | None:
        """The value of the current key, ``None`` if it has none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Sets the value of the current key; ``None`` removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that elements are added to; what comes out may be of another type."""

    @abstractmethod
    def get(self) -> OUT | None:
        """The result of the elements added for the current key, ``None`` if there are none."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds one element for the current key."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state whose entries can be merged: session windows need it."""


class ReducingState(MergingState[T, T]):
    """Keeps one value per key: what is added is folded into it by the descriptor's reduce function."""


class AggregatingState(MergingState[IN, OUT]):
    """Keeps one accumulator per key, fed and read by the descriptor's aggregate function."""


class ListState(MergingState[T, Iterable[T]]):
    """A list per key; adding does not read what is already there."""

    @abstractmethod
    def get(self) -> Iterable[T]:
        """The elements of the current key in the order they were added; empty if there are none."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replaces the list of the current key; an empty list removes it."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Adds all ``values`` at the end of the list of the current key."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _Entries(State, Generic[K, V]):
    """A map to read."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of an entry, ``None`` if it is missing."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is such an entry."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All entries, as pairs."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """The keys of all entries."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """The values of all entries."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there are no entries at all."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _WritableEntries(_Entries[K, V]):
    """A map to read and to write."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets one entry."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Sets all entries of ``dict_value``."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes one entry; does nothing if it is missing."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_WritableEntries[K, V]):
    """A map per key. Every entry is stored on its own, so that a large map costs only what is touched.

    ``state[k]``, ``state[k] = v``, ``del state[k]``, ``k in state`` and iteration over the keys work as with a dict,
    except that a missing entry reads as ``None``.
    """


class ReadOnlyBroadcastState(_Entries[K, V]):
    """The broadcast state as the other side of the connection sees it: read-only."""


class BroadcastState(ReadOnlyBroadcastState[K, V], _WritableEntries[K, V]):
    """A map that every parallel subtask holds in full.

    Each subtask sees every broadcast element and must come to the same entries: after a change of parallelism a subtask
    may be given the copy of another. So decide from the element and the state alone, never from the subtask index,
    a clock or a random number.
    """


class OperatorStateStore(ABC):
    """Hands out state that belongs to a subtask rather than to a key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of this subtask. After a change of parallelism the lists of all subtasks are dealt out evenly: an
        element is the smallest part that moves."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of this subtask; a restored function gets the lists of all subtasks, one after the other.

        That makes sense only if all subtasks are restored together, so new objects of such functions are made in all
        subtasks before every step. Use :meth:`get_list_state` if a subtask needs only its own list.
        """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A map that must be equal in all subtasks, to read and to write."""
