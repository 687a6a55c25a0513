"""The operator state of one subtask in a worker: lists, union lists, broadcast maps and raw bytes.

Values are frozen when they are given and thawed when they are asked for: no reference kept by user code reaches what
is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from beadline.api.state import BroadcastState, ListState
from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from beadline.errors import StateAccessError, StateMismatchError, TypeMismatchError
from beadline.state.access.keyed import checked_converter
from beadline.state.codec import Frozen, freeze, is_immutable, thaw
from beadline.state.description import OPERATOR, StateDescription, describe
from beadline.state.heap.tables import MISSING
from beadline.state.key_groups import map_indexed, unboxed
from beadline.state.operator.handles import (
    BROADCAST,
    KEYED_RAW,
    LIST,
    RAW,
    UNION,
    OperatorStateHandle,
    StateContent,
    StateRef,
    digest_of,
    encode,
    read_part,
)
from beadline.state.segments.version import SegmentRef

RAW_STATE = "_raw"
KEYED_RAW_STATE = "_keyed-raw"

# How many of the values handed out for reading are checked for changes in place.
_LOOK_AT = 1000

_WHAT = {
    LIST: "a list state",
    UNION: "a union list state",
    BROADCAST: "a broadcast state",
    RAW: "raw state",
    KEYED_RAW: "raw state by key group",
}


class _Held:
    """What all states share. ``dirty``: changed since it was loaded or stored."""

    mode: str
    dirty = True

    def load(self, parts: list[list[Any]], own: tuple[int, ...]) -> None:
        raise NotImplementedError

    def stored(self) -> list[Any]:
        raise NotImplementedError


_HeldT = TypeVar("_HeldT", bound=_Held)


class OperatorListState(_Held, ListState[Any]):
    """A list of the subtask; as a union it shows the lists of all subtasks until it is replaced."""

    def __init__(self, descriptor: ListStateDescriptor, mode: str) -> None:
        self.mode = mode
        self._name = descriptor.name
        self._convert = checked_converter(descriptor.name, descriptor.elem_type_info)
        self._own: list[Any] = []
        self._shown: list[Any] | None = None
        self._restored = 0

    def __repr__(self) -> str:
        return f"<{_WHAT[self.mode][2:]} '{self._name}' of {len(self._own)} elements>"

    def load(self, parts: list[list[Any]], own: tuple[int, ...]) -> None:
        self._own = [item for i in own for item in parts[i]]
        self._restored = len(self._own)
        self._shown = [item for part in parts for item in part] if self.mode == UNION else None
        self.dirty = False

    def stored(self) -> list[Any]:
        # Only the subtask's own part of a restored union: the other subtasks keep theirs.
        return self._own

    def get(self) -> Iterable[Any]:
        shown = self._own if self._shown is None else [*self._shown, *self._own[self._restored :]]
        return [thaw(item) for item in shown]

    def add(self, value: Any) -> None:
        self._own.append(self._frozen(value))
        self.dirty = True

    def add_all(self, values: list[Any]) -> None:
        self._own.extend([self._frozen(value) for value in values])
        self.dirty = True

    def update(self, values: list[Any]) -> None:
        self._own = [self._frozen(value) for value in values]
        self._shown = None
        self.dirty = True

    def clear(self) -> None:
        self.update([])

    def _frozen(self, value: Any) -> Any:
        if value is None:
            raise TypeMismatchError(f"list state '{self._name}' can't hold None")
        return freeze(value if self._convert is None else self._convert(value))


class OperatorBroadcastState(_Held, BroadcastState[Any, Any]):
    """A map that every subtask holds in full. What :meth:`get` gives is a copy; :meth:`look` shares one copy per step.

    :ivar entries: frozen values by key
    """

    mode = BROADCAST

    def __init__(self, descriptor: MapStateDescriptor) -> None:
        self.name = descriptor.name
        self._convert_key = checked_converter(descriptor.name, descriptor.key_type_info)
        self._convert = checked_converter(descriptor.name, descriptor.value_type_info)
        self.entries: dict[Any, Any] = {}
        self._live: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<broadcast state '{self.name}' of {len(self.entries)} entries>"

    def load(self, parts: list[list[Any]], own: tuple[int, ...]) -> None:
        # In place, because views hold on to the entries.
        self.entries.clear()
        self.entries.update((map_indexed(thaw(key)), value) for i in own for key, value in parts[i])
        self._live = {}
        self.dirty = False

    def stored(self) -> list[Any]:
        return [(freeze(unboxed(key)), value) for key, value in self.entries.items()]

    # -- to read

    def get(self, key: Any) -> Any:
        return thaw(self.entries.get(map_indexed(key)))

    def contains(self, key: Any) -> bool:
        return map_indexed(key) in self.entries

    def items(self) -> Iterator[tuple[Any, Any]]:
        # Lists, so that user code may change the map while it goes through it.
        return iter([(unboxed(key), thaw(value)) for key, value in self.entries.items()])

    def keys(self) -> Iterator[Any]:
        return iter(list(map(unboxed, self.entries)))

    def values(self) -> Iterator[Any]:
        return iter([thaw(value) for value in self.entries.values()])

    def is_empty(self) -> bool:
        return not self.entries

    # -- to read only, once per record: mutable values are thawed once per step

    def look(self, key: Any) -> Any:
        key = map_indexed(key)
        value = self.entries.get(key)
        return self.look_through(key, value) if value.__class__ is Frozen else value

    def look_through(self, key: Any, frozen: Any) -> Any:
        live = self._live.get(key, MISSING)
        if live is MISSING:
            live = self._live[key] = thaw(frozen)
        return live

    def look_at_all(self) -> Iterator[tuple[Any, Any]]:
        thawed = self.look_through
        for key, value in self.entries.items():
            yield unboxed(key), thawed(key, value) if value.__class__ is Frozen else value

    def changed_in_place(self) -> list[Any]:
        """Keys of values that were handed out for reading and were changed. The changes are dropped here: the next
        look thaws what is stored."""
        live, self._live = self._live, {}
        changed = []
        for key, value in list(live.items())[:_LOOK_AT]:
            frozen = self.entries[key]
            pickled = freeze(value)
            # A second pickle may differ (sets); then it is compared with that of a fresh copy.
            if pickled != frozen and pickled != freeze(thaw(frozen)):
                changed.append(unboxed(key))
        return changed

    # -- to write

    def put(self, key: Any, value: Any) -> None:
        if self._convert_key is not None:
            key = self._convert_key(key)
        if self._convert is not None and value is not None:
            value = self._convert(value)
        if not is_immutable(key):
            try:
                hash(key)
            except TypeError:
                raise StateAccessError(
                    f"broadcast state '{self.name}': a key must be hashable, got {type(key).__name__}: {key!r}. Use a "
                    "tuple instead of a list or Row."
                ) from None
            key = thaw(freeze(key))
        key = map_indexed(key)
        self.entries[key] = freeze(value)
        self._live.pop(key, None)
        self.dirty = True

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        # PyFlink wants pairs here, whatever its documentation says.
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        key = map_indexed(key)
        if self.entries.pop(key, MISSING) is not MISSING:
            self._live.pop(key, None)
            self.dirty = True

    def clear(self) -> None:
        if self.entries:
            self.entries.clear()
            self._live = {}
            self.dirty = True


class RawState(_Held):
    """Bytes that a function wrote by itself."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.pieces: list[Any] = []

    def load(self, parts: list[list[Any]], own: tuple[int, ...]) -> None:
        self.pieces = [piece for i in own for piece in parts[i]]
        self.dirty = False

    def stored(self) -> list[Any]:
        return self.pieces

    def replace(self, pieces: list[Any]) -> None:
        if pieces != self.pieces:
            self.pieces = pieces
            self.dirty = True


class OperatorStateBackend:
    """Hands out the states of one operator subtask, loads them and stores what changed.

    :ivar version: the version the states stand at, None before the first one
    """

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self.version: str | None = None
        self._refs: dict[str, StateRef] = {}
        self._states: dict[str, tuple[_Held, StateDescriptor | None, Any]] = {}

    @property
    def has_union(self) -> bool:
        """Whether functions must be restored together with those of all other subtasks."""
        return any(state.mode == UNION for state, _, _ in self._states.values())

    # -- versions

    def load(self, handle: OperatorStateHandle | None) -> None:
        """Bring the states to a version; nothing is read if they have it. What the program never asks for is not
        read either, and is kept."""
        self._refs = dict(handle.states) if handle is not None else {}
        version = handle.version if handle is not None else None
        if version == self.version and (version is not None or not self._states):
            return
        self.version = version
        for name, (state, _, _) in self._states.items():
            self._fill(name, state)

    def _fill(self, name: str, state: _Held) -> None:
        ref = self._refs.get(name)
        if ref is None:
            state.load([[]], (0,))
            state.dirty = True
            return
        if ref.mode != state.mode:
            raise StateMismatchError(
                f"operator '{self._operator}': state '{name}' is {_WHAT[state.mode]} in the program and "
                f"{_WHAT.get(ref.mode, ref.mode)} in the snapshot; use another name, or the kind it was written with"
            )
        state.load([read_part(part, ref.mode) for part in ref.parts], ref.own)

    def store(self, keep: Callable[[bytes, int, str], SegmentRef]) -> OperatorStateHandle:
        """The handle of what the states hold now. ``keep`` stores the bytes, count and mode of a changed state."""
        refs: dict[str, StateRef] = {}
        for name, ref in self._refs.items():
            # Only the subtask's own part, also of an old union that the program does not ask for.
            refs[name] = StateRef(ref.mode, ref.own_parts, tuple(range(len(ref.own)))) if ref.mode == UNION else ref
        for name, (state, _, _) in self._states.items():
            if not state.dirty and name in refs:
                continue
            items = state.stored()
            data = encode(StateContent(state.mode, items))
            state.dirty = False
            if name not in refs or [part.version for part in refs[name].parts] != [digest_of(data)]:
                refs[name] = StateRef(state.mode, (keep(data, len(items), state.mode),))
        handle = OperatorStateHandle(dict(sorted(refs.items())))
        self._refs, self.version = handle.states, handle.version
        return handle

    # -- states

    def list_state(self, descriptor: ListStateDescriptor, mode: str = LIST, owner: Any = None) -> OperatorListState:
        """The list of a descriptor; the same one when asked twice by the same owner."""
        _check_descriptor(descriptor, ListStateDescriptor, self._operator)
        return self._state(descriptor.name, mode, descriptor, owner, lambda: OperatorListState(descriptor, mode))

    def broadcast_state(self, descriptor: MapStateDescriptor, owner: Any = None) -> OperatorBroadcastState:
        _check_descriptor(descriptor, MapStateDescriptor, self._operator)
        return self._state(descriptor.name, BROADCAST, descriptor, owner, lambda: OperatorBroadcastState(descriptor))

    def raw_state(self, mode: str, owner: Any = None) -> RawState:
        name = RAW_STATE if mode == RAW else KEYED_RAW_STATE
        return self._state(name, mode, None, owner, lambda: RawState(mode))

    def _state(
        self, name: str, mode: str, descriptor: StateDescriptor | None, owner: Any, make: Callable[[], _HeldT]
    ) -> _HeldT:
        if descriptor is not None and descriptor.ttl_config is not None:
            raise StateAccessError(
                f"operator '{self._operator}': operator state '{name}' can't have a time to live; only keyed state can"
            )
        known: tuple[Any, StateDescriptor | None, Any] | None = self._states.get(name)
        if known is None:
            state = make()
            self._fill(name, state)
            self._states[name] = (state, descriptor, owner)
            return state
        held, first, first_owner = known
        if held.mode != mode:
            raise StateAccessError(
                f"operator '{self._operator}': state '{name}' is already registered as {_WHAT[held.mode]} and is now "
                f"asked for as {_WHAT[mode]}; two states need two names"
            )
        if owner is not first_owner:
            raise StateAccessError(
                f"operator '{self._operator}': two functions of it have an operator state '{name}'; two states need "
                "two names"
            )
        if first is not None and descriptor is not None and first.type_info != descriptor.type_info:
            raise StateAccessError(
                f"operator '{self._operator}': state '{name}' is already registered with the type {first.type_info} "
                f"and is now asked for with {descriptor.type_info}; two states need two names"
            )
        return held  # type: ignore[no-any-return]

    def descriptors(self) -> dict[str, StateDescriptor]:
        return {name: descriptor for name, (_, descriptor, _) in self._states.items() if descriptor is not None}

    def descriptions(self) -> list[StateDescription]:
        return [_described(name, state.mode, descriptor) for name, (state, descriptor, _) in self._states.items()]

    def broadcast_states(self) -> Iterator[OperatorBroadcastState]:
        for state, _, _ in self._states.values():
            if isinstance(state, OperatorBroadcastState):
                yield state


def _described(name: str, mode: str, descriptor: StateDescriptor | None) -> StateDescription:
    if descriptor is None:
        return StateDescription(name, mode, scope=OPERATOR, descriptor="RawState")
    return describe(descriptor, mode, OPERATOR)


def _check_descriptor(descriptor: Any, kind: type[StateDescriptor], operator: str) -> None:
    if not isinstance(descriptor, kind):
        raise TypeMismatchError(
            f"operator '{operator}': a {kind.__name__} is needed for this kind of operator state, got "
            f"{type(descriptor).__name__}: {descriptor!r}"
        )
