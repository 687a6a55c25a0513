"""Segments: the one durable form of keyed state, whatever the backend.

A segment holds changes by key group (merged segments also sorted by key), in blocks with checksums and an index by key
group, so that a restore at another parallelism reads only its ranges. A delta is a small segment; merged segments are
larger ones; a base is a segment without a parent.

Layout: ``magic | block … | index (JSON) | checksum and length of the index (8 bytes each) | magic``. Blocks may be
compressed; the index then names the codec and each block's own size.

A Parquet file of a savepoint is a segment in another encoding (:mod:`beadline.state.parquet.segment`), recognised by
its first bytes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import xxhash

from beadline.errors import BeadlineError, VersionError
from beadline.state.codec import dumps, loads, loads_own
from beadline.state.heap.tables import TABLE_KINDS, Changes
from beadline.state.heap.timers import TimerTable
from beadline.state.key_groups import BoxedKey, encode_key, hash_encoded

_MAGIC = b"BEADRUN1"
PARQUET_MAGIC = b"PAR1"
_BLOCK_ENTRIES = 8192
_BLOCK_BYTES = 4 << 20
_LARGEST_BLOCK = 1 << 31
# The parts of a change, by kind of table.
_FORMS: dict[str, tuple[Any, ...]] = {
    "value": (),
    "list": (bool, list),
    "map": (bool, dict, Collection),
    TimerTable.kind: (Collection, Collection),
}
CODECS = ("lz4", "zstd")

ReadRange = Callable[[int, int], "bytes | memoryview"]


@dataclass(frozen=True)
class TableChanges:
    """The changes of one table in one segment.

    :ivar ttl_ms: how long an entry lives after the time it begins with, None for ever
    """

    kind: str
    namespaced: bool
    changes: Changes
    ttl_ms: int | None = None


SegmentContent = dict[str, TableChanges]


# -- writing


def encode_segment(
    content: Mapping[str, TableChanges], max_parallelism: int, by_key: bool = False, codec: str | None = None
) -> bytes:
    """The bytes of a segment; empty if nothing changed. Parameters are those of :class:`SegmentWriter`."""
    parts: list[bytes] = []
    writer = SegmentWriter(parts.append, max_parallelism, by_key, codec)
    writer.add(content)
    writer.finish()
    return b"".join(parts)


class SegmentWriter:
    """Writes a segment some key groups at a time, so that it need not fit into memory.

    :param write: takes the next bytes of the segment; never called if nothing changed
    :param by_key: sort by key within a key group. Merged segments are sorted; a delta, written in every step, is not
    :param codec: compress the blocks with one of :data:`CODECS`
    :ivar entries: how many changes were written
    """

    def __init__(
        self, write: Callable[[bytes], Any], max_parallelism: int, by_key: bool = False, codec: str | None = None
    ) -> None:
        self._write = write
        self._max_parallelism = max_parallelism
        self._rows = sorted_rows if by_key else _grouped_rows
        self._codec = codec
        self._index: list[list[Any]] = []
        self._lives: dict[str, int] = {}
        self._offset = 0
        self.entries = 0

    def add(self, content: Mapping[str, TableChanges]) -> None:
        """Add changes of key groups that are not yet in the segment."""
        for name in sorted(content):
            table = content[name]
            groups, slots, changes = self._rows(table.changes, table.namespaced, self._max_parallelism)
            if table.ttl_ms is not None:
                self._lives[name] = table.ttl_ms
            for start in range(0, len(slots), _BLOCK_ENTRIES):
                end = start + _BLOCK_ENTRIES
                self._block(name, table, groups[start:end], slots[start:end], changes[start:end])
            self.entries += len(slots)

    def _block(self, name: str, table: TableChanges, groups: list[int], slots: list[Any], changes: list[Any]) -> None:
        block = dumps((groups, slots, changes))
        size = len(block)
        if size > _BLOCK_BYTES and len(slots) > 1:
            # A block has fewer large values, so that it can be read with little memory.
            several = max(1, min(len(slots) // 2, len(slots) * _BLOCK_BYTES // size))
            for start in range(0, len(slots), several):
                end = start + several
                self._block(name, table, groups[start:end], slots[start:end], changes[start:end])
            return
        if self._codec is not None:
            import pyarrow as pa

            block = pa.compress(block, self._codec, asbytes=True)
        if not self._index:
            self._put(_MAGIC)
        checksum = xxhash.xxh3_64_hexdigest(block)
        entry = [name, table.kind, table.namespaced, groups[0], groups[-1], self._offset, len(block), len(slots)]
        self._index.append([*entry, checksum] if self._codec is None else [*entry, checksum, size])
        self._put(block)

    def _put(self, data: bytes) -> None:
        self._write(data)
        self._offset += len(data)

    def finish(self) -> None:
        if not self._index:
            return
        head: dict[str, Any] = {"max_parallelism": self._max_parallelism, "blocks": self._index}
        if self._lives:
            head["ttl"] = dict(sorted(self._lives.items()))
        if self._codec is not None:
            head["codec"] = self._codec
        footer = json.dumps(head).encode()
        self._put(b"".join((footer, xxhash.xxh3_64_digest(footer), len(footer).to_bytes(8, "big"), _MAGIC)))


def _decompress(block: bytes | memoryview, codec: str, size: int, where: str) -> bytes:
    import pyarrow as pa

    if codec not in CODECS:
        raise VersionError(f"{where} is compressed with {codec!r}, and this Beadline knows {' and '.join(CODECS)}")
    return bytes(pa.decompress(block, size, codec, asbytes=True))


Rows = tuple[list[int], list[Any], list[Any]]


def _grouped_rows(changes: Changes, namespaced: bool, max_parallelism: int) -> Rows:
    """Key groups, slots and changes by key group, in the order of their first touch. Runs once per entry and step, so
    it is inlined."""
    buckets: defaultdict[int, list[Any]] = defaultdict(list)
    hashed = hash_encoded
    for slot in changes:
        key = slot[0] if namespaced else slot
        encoded = key.encoded if key.__class__ is BoxedKey else encode_key(key)
        buckets[hashed(encoded) % max_parallelism].append(slot)
    groups: list[int] = []
    slots: list[Any] = []
    for group in sorted(buckets):
        bucket = buckets[group]
        groups += [group] * len(bucket)
        slots += bucket
    return groups, slots, list(map(changes.__getitem__, slots))


def sorted_rows(changes: Changes, namespaced: bool, max_parallelism: int) -> Rows:
    buckets: defaultdict[int, list[tuple[bytes, Any, Any]]] = defaultdict(list)
    hashed = hash_encoded
    for slot, change in changes.items():
        key = slot[0] if namespaced else slot
        encoded = key.encoded if key.__class__ is BoxedKey else encode_key(key)
        buckets[hashed(encoded) % max_parallelism].append((encoded, slot, change))
    groups: list[int] = []
    rows: list[tuple[bytes, Any, Any]] = []
    for group in sorted(buckets):
        bucket = buckets[group]
        bucket.sort(key=itemgetter(0))  # one key may have several slots, which need not be comparable
        groups += [group] * len(bucket)
        rows += bucket
    return groups, [row[1] for row in rows], [row[2] for row in rows]


# -- reading


@dataclass(frozen=True)
class Block:
    """A part of a segment that is read at once.

    :ivar first: the lowest key group in it
    :ivar last: the highest key group in it
    :ivar size: about how many bytes it has when it is not compressed
    """

    number: int
    name: str
    first: int
    last: int
    entries: int
    size: int

    def overlaps(self, key_groups: range | None) -> bool:
        if key_groups is None:
            return True
        return bool(key_groups) and self.last >= key_groups.start and self.first < key_groups.stop


#: A block in memory: gives the changes of some key groups, or of all.
LoadedBlock = Callable[["range | None"], TableChanges]


class SegmentReader(ABC):
    """A segment whose index has been read.

    :ivar blocks: in the order in which they are best read: by table, key group and, in a merged segment, key
    """

    blocks: list[Block]

    @abstractmethod
    def load(self, block: Block) -> LoadedBlock:
        """Read one of the blocks, and check it."""

    def parts(self, key_groups: range | None = None) -> Iterator[tuple[str, TableChanges]]:
        """The changes of some key groups, block by block. The timers of a slot may be spread over several."""
        for block in self.blocks:
            if block.overlaps(key_groups):
                yield block.name, self.load(block)(key_groups)

    def content(self, key_groups: range | None = None) -> SegmentContent:
        content: SegmentContent = {}
        for name, part in self.parts(key_groups):
            add_part(content, name, part)
        return content


def open_segment(read: ReadRange, size: int, where: str = "a segment", own: bool = False) -> SegmentReader:
    """A segment in either encoding.

    :param read: gives some bytes of the segment, by offset and length
    :param size: how many bytes the segment has
    :param where: names the segment in errors
    :param own: the job itself has written it, so that what it holds need not be checked
    """
    if size and bytes(read(0, min(size, len(PARQUET_MAGIC)))) == PARQUET_MAGIC:
        from beadline.state.parquet.segment import ParquetReader

        return ParquetReader(read, size, where)
    return _NativeReader(read, size, where, own)


class _NativeReader(SegmentReader):
    def __init__(self, read: ReadRange, size: int, where: str, own: bool) -> None:
        self._read, self._where, self._own = read, where, own
        with _form_checked(where):
            footer = _read_index(read, size, where)
            self._codec, self._lives = footer.get("codec"), footer.get("ttl", {})
            self._index: list[list[Any]] = footer["blocks"]
            self.blocks = [
                Block(number, entry[0], entry[3], entry[4], entry[7], entry[9] if len(entry) > 9 else entry[6])
                for number, entry in enumerate(self._index)
            ]
            # A merged segment has some key groups of all tables, then others.
            self.blocks.sort(key=lambda block: block.name)
            if not own:
                _check_index(self._index, self._lives)

    def load(self, block: Block) -> LoadedBlock:
        with _form_checked(self._where):
            return self._load(block)

    def _load(self, block: Block) -> LoadedBlock:
        name, kind, namespaced, first, last, offset, length, _count, checksum, *plain_size = self._index[block.number]
        data: bytes | memoryview = memoryview(self._read(offset, length))
        if xxhash.xxh3_64_hexdigest(data) != checksum:
            raise VersionError(f"{self._where}: checksum of table '{name}', key groups {first} to {last}, is wrong")
        if self._codec is not None:
            data = _decompress(data, self._codec, plain_size[0], self._where)
        groups, slots, payloads = loads_own(data) if self._own else loads(data)
        if not self._own:
            _check_rows(kind, namespaced, groups, slots, payloads)

        def changes_of(key_groups: range | None) -> TableChanges:
            if key_groups is None or (first >= key_groups.start and last < key_groups.stop):
                changes = dict(zip(slots, payloads, strict=True))
            else:
                start, end = bisect_left(groups, key_groups.start), bisect_left(groups, key_groups.stop)
                changes = dict(zip(slots[start:end], payloads[start:end], strict=True))
            return TableChanges(kind, namespaced, changes, self._lives.get(name))

        if not self._own:
            hash(tuple(slots))  # while what is wrong with it can be explained
        return changes_of


@contextmanager
def _form_checked(where: str) -> Iterator[None]:
    """What is not as this module writes it becomes an error that names the segment."""
    try:
        yield
    except BeadlineError:
        raise
    except Exception as error:
        raise VersionError(f"{where} is not well formed: {type(error).__name__}: {str(error)[:200]}") from error


def _check_index(entries: Any, lives: Any) -> None:
    """The index of a segment that somebody else wrote."""
    if not all(life.__class__ is int for life in lives.values()):
        raise ValueError(f"{lives!r} are no times to live")
    for entry in entries:
        _check_entry(entry)


def _check_entry(entry: list[Any]) -> None:
    name, kind, namespaced, *numbers, checksum = entry[:9]
    numbers += entry[9:]
    if name.__class__ is not str or namespaced.__class__ is not bool or checksum.__class__ is not str:
        raise ValueError(f"{entry!r} is no entry of an index")
    if kind not in TABLE_KINDS or not all(number.__class__ is int and number >= 0 for number in numbers):
        raise ValueError(f"{entry!r} is no entry of an index")
    if len(entry) > 9 and entry[9] > _LARGEST_BLOCK:
        raise ValueError(f"a block of {entry[9]} bytes is larger than any that is written")


def _check_rows(kind: str, namespaced: bool, groups: Any, slots: Any, payloads: Any) -> None:
    """A block that somebody else wrote: its values are data, but they may lie in any shape."""
    if {list} != {groups.__class__, slots.__class__, payloads.__class__} or len(slots) != len(payloads):
        raise ValueError("a block does not hold lists of key groups, slots and changes")
    if not all(group.__class__ is int for group in groups) or len(groups) != len(slots):
        raise ValueError("a key group is no number")
    if namespaced and not all(slot.__class__ is tuple and len(slot) == 2 for slot in slots):
        raise ValueError("a slot has no key and namespace")
    wanted = _FORMS[kind]
    if wanted and not all(
        change.__class__ is tuple and len(change) == len(wanted) and all(map(isinstance, change, wanted))
        for change in payloads
    ):
        raise ValueError(f"a change of a {kind} is not as it is written")


def _read_index(read: ReadRange, size: int, where: str) -> dict[str, Any]:
    if not size:
        return {"blocks": []}  # what a merge leaves when everything was removed again
    frame = len(_MAGIC)
    tail = bytes(read(size - frame - 16, frame + 16)) if size >= 2 * frame + 16 else b""
    if bytes(read(0, frame)) != _MAGIC or tail[16:] != _MAGIC:
        raise VersionError(f"{where} is not a segment of state or is cut short ({size} bytes)")
    length = int.from_bytes(tail[8:16], "big")
    start = size - frame - 16 - length
    index = bytes(read(start, length)) if start >= 0 else b""
    if start < 0 or xxhash.xxh3_64_digest(index) != tail[:8]:
        raise VersionError(f"{where}: checksum of the index is wrong")
    footer: dict[str, Any] = json.loads(index)
    return footer


def decode_segment(
    data: bytes, key_groups: range | None = None, where: str = "a segment", own: bool = False
) -> SegmentContent:
    """The changes of a segment, restricted to a range of key groups. Parameters are those of :func:`open_segment`."""
    view = memoryview(data)
    return open_segment(lambda offset, size: view[offset : offset + size], len(data), where, own).content(key_groups)


def add_part(content: SegmentContent, name: str, part: TableChanges) -> None:
    """Add a table's changes from another block of the same segment."""
    table = content.get(name)
    if table is None:
        content[name] = part
    elif part.kind != TimerTable.kind:
        table.changes.update(part.changes)
    else:
        merge = TimerTable.merge
        for slot, change in part.changes.items():
            table.changes[slot] = merge(table.changes[slot], change) if slot in table.changes else change


# -- contents


def merge_contents(contents: Iterable[SegmentContent]) -> SegmentContent:
    """One content that equals several contents applied in order."""
    merged: SegmentContent = {}
    for content in contents:
        for name, newer in content.items():
            older = merged.get(name)
            if older is None:
                merged[name] = replace(newer, changes=dict(newer.changes))
                continue
            merge = TABLE_KINDS[newer.kind].merge
            changes = older.changes
            if older.ttl_ms != newer.ttl_ms:
                merged[name] = replace(newer, changes=changes)
            for slot, change in newer.changes.items():
                changes[slot] = merge(changes[slot], change) if slot in changes else change
    return merged


def without_tombstones(content: SegmentContent) -> SegmentContent:
    """A content that lies at the bottom of a handle: removals have nothing left to remove."""
    kept: SegmentContent = {}
    for name, table in content.items():
        settle, changes = TABLE_KINDS[table.kind].settle, table.changes
        if table.kind != "value":
            changes = {slot: left for slot, change in changes.items() if (left := settle(change)) is not None}
        elif None in changes.values():  # a value that was put is settled as it is
            changes = {slot: change for slot, change in changes.items() if change is not None}
        kept[name] = replace(table, changes=changes)
    return kept


def without_expired(content: SegmentContent, now: int) -> SegmentContent:
    """A content at the bottom of a handle, as :func:`without_tombstones` leaves it, without what is over by now."""
    kept: SegmentContent = {}
    for name, table in content.items():
        if table.ttl_ms is None:
            kept[name] = table
            continue
        alive_after, expire = now - table.ttl_ms, TABLE_KINDS[table.kind].expire
        changes = {slot: expire(change, alive_after) for slot, change in table.changes.items()}
        kept[name] = replace(table, changes={slot: change for slot, change in changes.items() if change is not None})
    return kept


def count_entries(content: Mapping[str, TableChanges]) -> int:
    return sum(len(table.changes) for table in content.values())
