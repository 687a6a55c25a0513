"""What a worker does for a canonical savepoint: reads a slice of state from immutable segments and writes it as
Parquet.

A task may run twice, or elsewhere: files are named by content, and only those that the driver names count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import xxhash

from beadline.errors import VersionError
from beadline.runtime.messages import RunContext
from beadline.runtime.worker import worker
from beadline.runtime.worker.garbage import no_collection
from beadline.state.description import OPERATOR, StateDescription
from beadline.state.operator.handles import decode
from beadline.state.parquet.operator_columns import encode_operator_state
from beadline.state.parquet.segment import ParquetSegmentWriter
from beadline.state.segments.drafts import Draft
from beadline.state.segments.files import (
    is_folder,
    join,
    make_folder,
    parent,
    part_name,
    read_segment,
    safe_name,
    write_file,
)
from beadline.state.segments.merging import merged
from beadline.state.segments.segment import TableChanges
from beadline.state.segments.version import SegmentRef, checksum_of


@dataclass(frozen=True)
class KeyedExport:
    """A slice of one subtask's keyed state.

    :ivar operator: which of the snapshot's operators
    :ivar folder: of the operator, in a savepoint folder that the driver has made
    :ivar groups: first and last + 1 of the key groups
    :ivar reserved: names of folders that operator state of the same name has taken
    """

    operator: int
    subtask: int
    folder: str
    groups: tuple[int, int]
    segments: tuple[SegmentRef, ...]
    max_parallelism: int
    key_type: str
    descriptions: tuple[StateDescription, ...]
    reserved: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StateExport:
    """One part of one operator state of one subtask.

    :ivar position: among the subtask's parts
    :ivar number: among the parts of all subtasks
    """

    operator: int
    subtask: int
    folder: str
    name: str
    mode: str
    position: int
    number: int
    part: SegmentRef
    description: StateDescription | None


Export: TypeAlias = KeyedExport | StateExport
#: The files that an export became, with the names of their states. The driver gives versions.
Exported: TypeAlias = tuple[tuple[str, SegmentRef], ...]


def export_in_worker(shipment: Any, context: RunContext, now: int, exports: tuple[Export, ...]) -> list[Exported]:
    worker.enter_execution(context, shipment)
    with no_collection():
        return [export(each, now) for each in exports]


def export(request: Export, now: int) -> Exported:
    """Write the files of one export. What has expired by ``now`` is left out."""
    if not is_folder(parent(request.folder)):
        raise VersionError(f"the savepoint {parent(request.folder)} is gone: it was given up")
    if isinstance(request, StateExport):
        return ((request.name, _export_state(request)),)
    return tuple(_export_keyed(request, now))


def _export_keyed(request: KeyedExport, now: int) -> Iterator[tuple[str, SegmentRef]]:
    """One file per table, written as the segments are read."""
    declared = {description.name: description for description in request.descriptions}
    with ExitStack() as stack:
        made: dict[str, tuple[Draft, ParquetSegmentWriter]] = {}
        for _, content in merged(request.segments, range(*request.groups), now=now):
            for name, table in content.items():
                if name not in made:
                    draft = stack.enter_context(_draft(request, name))
                    description = _description_of(name, table, declared.get(name))
                    writer = ParquetSegmentWriter(draft.write, description, request.key_type, request.max_parallelism)
                    made[name] = draft, writer
                made[name][1].add(table)
        for name, (draft, writer) in made.items():
            writer.finish()
            path = draft.publish(part_name(request.groups[0], draft.digest), durable=True)
            segment = SegmentRef(
                "", writer.entries, draft.size, path=path, checksum=draft.checksum, groups=request.groups
            )
            yield name, segment


def _draft(request: KeyedExport, name: str) -> Draft:
    folder = safe_name(name)
    if folder in request.reserved:
        folder += "-keyed"
    path = join(request.folder, folder)
    make_folder(path)
    return Draft(path)


def _description_of(name: str, table: TableChanges, declared: StateDescription | None) -> StateDescription:
    """What the program declared for a table; an operator's own tables, such as timers, are not declared."""
    if declared is None or declared.kind != table.kind:
        return StateDescription(name, table.kind, namespaced=table.namespaced, ttl_ms=table.ttl_ms)
    return replace(declared, namespaced=table.namespaced, ttl_ms=table.ttl_ms)


def _export_state(request: StateExport) -> SegmentRef:
    content = decode(read_segment(request.part), repr(request.part), request.part.is_own)
    declared = request.description
    if declared is None or declared.kind != content.mode:
        declared = StateDescription(request.name, content.mode, scope=OPERATOR)
    data = encode_operator_state(content, declared)
    folder = join(request.folder, safe_name(request.name))
    make_folder(folder)
    name = part_name(request.number, xxhash.xxh3_128_hexdigest(data))
    path = write_file(join(folder, name), data, durable=True)
    return SegmentRef("", len(content.items), len(data), path=path, checksum=checksum_of(data))
