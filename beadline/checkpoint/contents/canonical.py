"""Canonical savepoints: all state as tables in Parquet, in folders named by operator and state.

::

    savepoint-a1b2c3-0123456789ab/
        _metadata
        count/                                the operator's uid
            total/                            a state; window state and timers have folders too
                part-00000-5a….parquet        a slice of key groups, from the first one that the name says
            offsets/                          operator state: one part per subtask

``_metadata`` holds the same handles as in any snapshot. Their segments are the Parquet files: a file is a segment in
another encoding, so restoring needs no special case. Positions, watermarks and what sinks have staged are in
``_metadata`` itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.runtime.short_tasks.exporting import Export, Exported, KeyedExport, StateExport
from beadline.state.description import KEYED, OPERATOR
from beadline.state.key_groups import key_group_range
from beadline.state.operator.handles import BROADCAST, OperatorStateHandle, StateRef
from beadline.state.segments.files import delete_file, entries_of, join, safe_name, sync
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, load_of, next_version, slices_of, within

# Small exports share a task.
_TASK_EXPORTS = 64


def tasks_of(snapshot: Snapshot, folder: str) -> list[tuple[Export, ...]]:
    """Cut the state of a snapshot, whose savepoint is made in a folder, into tasks of about equal size."""
    tasks: list[tuple[Export, ...]] = []
    current: list[Export] = []
    weight = 0.0
    for number, operator in enumerate(snapshot.operators):
        for export, load in _exports(number, operator, join(folder, safe_name(operator.uid))):
            if current and (weight + load > 1 or len(current) == _TASK_EXPORTS):
                tasks.append(tuple(current))
                current, weight = [], 0.0
            current.append(export)
            weight += load
    if current:
        tasks.append(tuple(current))
    return tasks


def _exports(number: int, operator: OperatorSnapshot, folder: str) -> Iterator[tuple[Export, float]]:
    """Each with how much of a task's work it is."""
    names = {name for states in operator.operator_state if states is not None for name in states.states}
    reserved = frozenset(map(safe_name, names))
    keyed = tuple(d for d in operator.state_descriptions if d.scope == KEYED)
    for subtask, handle in enumerate(operator.keyed):
        if handle is None or not handle.segments:
            continue
        owned = key_group_range(subtask, operator.parallelism, operator.max_parallelism)
        load = load_of(handle.segments)
        slices = slices_of(owned, load)
        for groups in slices:
            segments = within(handle.segments, groups)
            export = KeyedExport(
                number,
                subtask,
                folder,
                (groups.start, groups.stop),
                segments,
                operator.max_parallelism,
                operator.key_type,
                keyed,
                reserved,
            )
            yield export, load / len(slices)
    described = {d.name: d for d in operator.state_descriptions if d.scope == OPERATOR}
    numbers: Counter[str] = Counter()
    broadcast: set[tuple[str, str]] = set()
    for subtask, name, ref, position, part in _parts(operator):
        if ref.mode == BROADCAST:
            if (name, part.version) in broadcast:
                continue  # all subtasks have the same map: one file is enough for all
            broadcast.add((name, part.version))
        yield (
            StateExport(number, subtask, folder, name, ref.mode, position, numbers[name], part, described.get(name)),
            load_of([part]),
        )
        numbers[name] += 1


def _parts(operator: OperatorSnapshot) -> Iterator[tuple[int, str, StateRef, int, SegmentRef]]:
    """Subtask, name, reference, position and part of all parts of operator state."""
    for subtask, states in enumerate(operator.operator_state):
        for name, ref in states.states.items() if states is not None else ():
            for position, part in enumerate(ref.own_parts):
                yield subtask, name, ref, position, part


def take_in(snapshot: Snapshot, exports: Sequence[Export], results: Sequence[Exported], published: str) -> Snapshot:
    """The snapshot with its state in the files that were exported, as they will be named when it is published."""
    keyed: dict[tuple[int, int], list[tuple[tuple[str, int], SegmentRef]]] = {}
    parts: dict[tuple[int, int, str, int], SegmentRef] = {}
    shared: dict[tuple[int, str, str], SegmentRef] = {}
    for export, result in zip(exports, results, strict=True):
        for name, segment in result:
            segment = replace(segment, path=_published(segment, published))
            if isinstance(export, KeyedExport):
                place = (export.operator, export.subtask)
                keyed.setdefault(place, []).append(((name, export.groups[0]), segment))
            elif export.mode == BROADCAST:
                shared[export.operator, name, export.part.version] = segment
            else:
                parts[export.operator, export.subtask, name, export.position] = segment
    operators = []
    for number, operator in enumerate(snapshot.operators):
        operators.append(
            replace(
                operator,
                keyed=tuple(
                    handle and _chained(handle.root, keyed.get((number, subtask), []))
                    for subtask, handle in enumerate(operator.keyed)
                ),
                operator_state=tuple(
                    held and _with_files(number, subtask, held, parts, shared)
                    for subtask, held in enumerate(operator.operator_state)
                ),
            )
        )
    return replace(snapshot, operators=tuple(operators))


def _published(segment: SegmentRef, published: str) -> str:
    assert segment.path is not None
    return join(published, *segment.path.partition("?")[0].split("/")[-3:])


def _chained(root: str, files: list[tuple[tuple[str, int], SegmentRef]]) -> KeyedStateHandle:
    """A handle of files that hold different key groups or tables: each table is a layer."""
    handle = KeyedStateHandle(root)
    for (name, _), segment in sorted(files, key=lambda file: (file[0], file[1].path or "")):
        version = next_version(handle.version, f"{name}|{segment.checksum}|{segment.groups}".encode())
        handle = handle.plus(replace(segment, version=version))
    return handle


def _with_files(
    number: int,
    subtask: int,
    held: OperatorStateHandle,
    parts: Mapping[tuple[int, int, str, int], SegmentRef],
    shared: Mapping[tuple[int, str, str], SegmentRef],
) -> OperatorStateHandle:
    """Operator state with its parts in files. Equal content keeps its version."""
    made = {}
    for name, ref in held.states.items():
        own = []
        for position, part in enumerate(ref.own_parts):
            file = shared.get((number, name, part.version)) or parts[number, subtask, name, position]
            own.append(replace(file, version=part.version))
        made[name] = StateRef(ref.mode, tuple(own), tuple(range(len(own))))
    return OperatorStateHandle(made)


def settle(folder: str, snapshot: Snapshot) -> None:
    """Remove what failed tries left, and make the names of the rest durable. No task may be writing any more."""
    named = {
        segment.path.partition("?")[0].rpartition("/")[2] for segment in snapshot.segments if segment.path is not None
    }
    for operator in [entry for entry in entries_of(folder) if entry.folder]:
        path = join(folder, operator.name)
        for state in entries_of(path):
            for entry in entries_of(join(path, state.name)):
                if entry.name not in named:
                    delete_file(join(path, state.name, entry.name))
            sync(join(path, state.name))
        sync(path)
    sync(folder)
