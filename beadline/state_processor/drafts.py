"""An operator of a savepoint in the making: what it was, and what is to change.

Operator state is small, since every subtask loads its share at once: the driver puts it together here.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, SnapshotError
from beadline.common.type_description import readable, type_to_text
from beadline.common.typeinfo import TypeInformation
from beadline.errors import ConfigurationError, SerializationError, TypeMismatchError
from beadline.state.access.backend import TIMERS
from beadline.state.cells import declared, maker_of
from beadline.state.codec import freeze
from beadline.state.description import KEYED, OPERATOR, StateDescription
from beadline.state.key_groups import key_group_range
from beadline.state.operator.handles import (
    BROADCAST,
    LIST,
    OperatorStateHandle,
    StateContent,
    StateRef,
    digest_of,
    encode,
    redistribute,
    redistribute_handles,
)
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, root_version
from beadline.state_processor.catalog import states_of

# Operator state stays in memory until it is exported.
_INLINE = 1 << 62
_SHAPES = {"list": (ArrayType, "an array, its elements"), "map": (MapType, "a map")}


@dataclass(frozen=True)
class StateInput:
    """A state and the DataFrame it is made of.

    The columns of keyed state: key, perhaps window, value, perhaps the time of the last write. Of operator state:
    elements, or keys and values.
    """

    state: StateDescription
    df: DataFrame


@dataclass(frozen=True)
class TimersInput:
    """Timers: key, perhaps window, domain, timestamp."""

    df: DataFrame
    windowed: bool


class OperatorDraft:
    """One operator.

    :ivar base: as it was, or a new one without state
    :ivar tables: keyed states that are new or replaced, by name
    :ivar lists: operator states that are new or replaced, by name
    """

    def __init__(self, base: OperatorSnapshot) -> None:
        self.base = base
        self.uid = base.uid
        self.max_parallelism = base.max_parallelism
        self.tables: dict[str, StateInput] = {}
        self.timers: TimersInput | None = None
        self.lists: dict[str, StateInput] = {}
        self.key_type = base.key_type
        self._removed: set[tuple[str, str]] = set()

    @property
    def parallelism(self) -> int:
        return min(self.base.parallelism, self.max_parallelism)

    def take_key_type(self, info: TypeInformation | None) -> None:
        """All keyed state of an operator has the same keys."""
        if info is None:
            return
        text = type_to_text(info)
        if self.key_type and text != self.key_type:
            raise ConfigurationError(
                f"the keys of operator '{self.uid}' are of type {readable(self.key_type)}, and key_type= says "
                f"{readable(text)}: all keyed state of an operator has the same keys"
            )
        self.key_type = text

    # -- states

    def description(self, scope: str, name: str) -> StateDescription | None:
        return next((s for s in self.descriptions() if (s.scope, s.name) == (scope, name)), None)

    def descriptions(self) -> Iterator[StateDescription]:
        """The states that it is going to have."""
        for state in states_of(self.base):
            replaced = self.tables if state.scope == KEYED else self.lists
            timers = self.timers is not None and state.name in TIMERS
            if state.name not in replaced and not timers and (state.scope, state.name) not in self._removed:
                yield state
        yield from (made.state for made in self.tables.values())
        yield from (made.state for made in self.lists.values())
        if self.timers is not None:
            for name, descriptor in TIMERS.items():
                yield StateDescription(name, "timer", descriptor=descriptor, namespaced=self.timers.windowed)

    def remove(self, name: str) -> None:
        found = [state for state in self.descriptions() if state.name == name]
        if not found:
            known = ", ".join(f"'{state.name}'" for state in self.descriptions()) or "none"
            raise SnapshotError(f"operator '{self.uid}' has no state named '{name}'; there is {known}")
        self._removed.update((state.scope, name) for state in found)
        self.tables.pop(name, None)
        self.lists.pop(name, None)

    @property
    def left_out(self) -> frozenset[str]:
        """Tables of keyed state that are not taken over."""
        gone = {name for scope, name in self._removed if scope == KEYED}
        return frozenset({*gone, *self.tables, *(TIMERS if self.timers is not None else ())})

    @property
    def rewrites_keys(self) -> bool:
        """Whether keyed state is rebuilt, instead of taken over as it is."""
        moved = self.max_parallelism != self.base.max_parallelism and any(self.base.keyed)
        return moved or bool(self.left_out)

    def left_out_lists(self) -> frozenset[str]:
        """Operator states that are not taken over."""
        return frozenset({*(name for scope, name in self._removed if scope == OPERATOR), *self.lists})

    # -- the operator that it becomes

    def shell(self) -> OperatorSnapshot:
        """The operator without the state that is rebuilt."""
        base, parallelism = self.base, self.parallelism
        made = replace(
            base,
            uid=self.uid,
            parallelism=parallelism,
            max_parallelism=self.max_parallelism,
            state_descriptions=tuple(self.descriptions()),
            key_type=self.key_type,
        )
        if parallelism != base.parallelism:
            made = replace(made, locals=(), next_timers=())
        if not self.rewrites_keys:
            return made
        origin = f"state-processor-{uuid.uuid4().hex}"
        groups = (key_group_range(subtask, parallelism, self.max_parallelism) for subtask in range(parallelism))
        handles = tuple(KeyedStateHandle(root_version(origin, self.uid, own)) for own in groups)
        return replace(made, keyed=handles, next_timers=(None,) * parallelism)


# -- operator state


def operator_states(draft: OperatorDraft) -> tuple[OperatorStateHandle | None, ...]:
    """The operator state that a draft is going to have, by subtask."""
    parallelism, base = draft.parallelism, draft.base
    given = list(base.operator_state)
    if given and parallelism != base.parallelism:
        files = SegmentFiles("")  # nothing is written: all of it is inline
        given = list(redistribute_handles(given, parallelism, draft.max_parallelism, files, _INLINE))
    gone = draft.left_out_lists()
    states = [
        {name: ref for name, ref in handle.states.items() if name not in gone} if handle is not None else {}
        for handle in given or [None] * parallelism
    ]
    for name, made in draft.lists.items():
        for subtask, ref in enumerate(_refs(made, parallelism, f"state '{name}' of operator '{draft.uid}'")):
            states[subtask][name] = ref
    return tuple(OperatorStateHandle(own) if own else None for own in states) if any(states) else ()


def _refs(made: StateInput, parallelism: int, owner: str) -> list[StateRef]:
    items, mode = _items(made, owner), made.state.kind
    if mode == BROADCAST:
        return [_ref(mode, items)] * parallelism
    # Dealt out evenly, as one subtask's list would be; a union is shown to all of them anyway.
    shares = redistribute([{"": StateContent(LIST, items)}], parallelism)
    return [_ref(mode, share[""].items) for share in shares]


def _ref(mode: str, items: list[Any]) -> StateRef:
    data = encode(StateContent(mode, items))
    return StateRef(mode, (SegmentRef(digest_of(data), len(items), len(data), inline=data),))


def _items(made: StateInput, owner: str) -> list[Any]:
    """Elements as a store keeps them; of a broadcast state keys and values."""
    table = made.df.toArrow()
    state = made.state
    types = [state.map_key_type, state.type] if state.kind == BROADCAST else [state.type]
    makers = [maker_of(field.type, declared(text)) for field, text in zip(table.schema, types, strict=True)]
    items: list[Any] = []
    for cells in zip(*(column.to_pylist() for column in table.columns), strict=True):
        if None in cells:
            raise SnapshotError(f"{owner}: a row has a null, {cells!r}; leave such rows out")
        try:
            values = [make(cell) for make, cell in zip(makers, cells, strict=True)]
            items.append(freeze(values[0]) if len(values) == 1 else (values[0], freeze(values[1])))
        except (TypeMismatchError, SerializationError) as error:
            raise SnapshotError(f"{owner}: {error}") from error
    if state.kind == BROADCAST:
        _check_keys([key for key, _ in items], owner)
    return items


def _check_keys(keys: list[Any], owner: str) -> None:
    seen = set()
    for key in keys:
        try:
            twice = key in seen
        except TypeError:
            raise SnapshotError(f"{owner}: a key must be hashable, got {key!r}; use a tuple type") from None
        if twice:
            raise SnapshotError(f"{owner}: key {key!r} comes twice")
        seen.add(key)


# -- checks of DataFrames, before any task runs


def check_columns(df: DataFrame, columns: list[str], owner: str) -> None:
    if not isinstance(df, DataFrame):
        raise ConfigurationError(f"{owner} is made of a Spark DataFrame, got {type(df).__name__}")
    if df.isStreaming:
        raise ConfigurationError(f"{owner} is made of a bounded DataFrame, got a stream")
    missing = [name for name in columns if name not in df.columns]
    if missing:
        raise ConfigurationError(
            f"{owner}: the DataFrame has no column {', '.join(map(repr, missing))}; it has "
            f"{', '.join(map(repr, df.columns)) or 'none'}"
        )


def check_shape(df: DataFrame, value: str, kind: str, owner: str) -> None:
    """Lists come as arrays and maps as maps, one row for each key."""
    if kind not in _SHAPES:
        return
    wanted, what = _SHAPES[kind]
    found = df.schema[value].dataType
    if not isinstance(found, wanted):
        raise ConfigurationError(
            f"{owner} is a {kind} state: column '{value}' holds {what} of one key, and here it "
            f"is {found.simpleString()}"
        )
