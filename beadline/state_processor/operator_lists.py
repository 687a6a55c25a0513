"""Operator state made from DataFrames. It is small, since every subtask loads its share at once: the driver
puts it together."""

from __future__ import annotations

from typing import Any

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.errors import SerializationError, TypeMismatchError
from beadline.state.cells import declared, maker_of
from beadline.state.codec import freeze
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
from beadline.state.segments.version import SegmentRef
from beadline.state_processor.drafts import OperatorDraft, StateInput

# Everything stays in memory until it is exported.
_INLINE = 1 << 62


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
