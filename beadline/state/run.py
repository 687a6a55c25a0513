"""Runs: the one durable form of keyed state, whatever the backend.

A run holds changes by key group (merged runs also sorted by key), in blocks with checksums and an index by key group,
so that a restore at another parallelism reads only its ranges. A delta is a small run; merged runs are larger ones; a
base is a run without a parent.

Layout: ``magic | block … | index (JSON) | checksum and length of the index (8 bytes each) | magic``. Blocks may be
compressed; the index then names the codec and each block's own size.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import xxhash

from beadline.errors import VersionError
from beadline.state.codec import dumps, loads
from beadline.state.key_groups import BoxedKey, encode_key, hash_encoded
from beadline.state.tables import TABLE_KINDS, Changes

_MAGIC = b"BEADRUN1"
_BLOCK_ENTRIES = 8192
CODECS = ("lz4", "zstd")


@dataclass(frozen=True)
class TableChanges:
    """The changes of one table in one run.

    :ivar ttl_ms: how long an entry lives after the time it begins with, None for ever
    """

    kind: str
    namespaced: bool
    changes: Changes
    ttl_ms: int | None = None


RunContent = dict[str, TableChanges]


def encode_run(
    content: Mapping[str, TableChanges], max_parallelism: int, by_key: bool = False, codec: str | None = None
) -> bytes:
    """The bytes of a run; empty if nothing changed.

    :param by_key: sort by key within a key group. A delta is written in every step and does without; merged runs
        have it.
    :param codec: compress the blocks with one of :data:`CODECS`
    """
    blocks: list[bytes] = []
    index: list[list[Any]] = []
    offset = len(_MAGIC)
    for name in sorted(content):
        table = content[name]
        rows = (_sorted_rows if by_key else _grouped_rows)(table, max_parallelism)
        for start in range(0, len(rows), _BLOCK_ENTRIES):
            part = rows[start : start + _BLOCK_ENTRIES]
            block = dumps(([r[0] for r in part], [r[1] for r in part], [table.changes[r[1]] for r in part]))
            size = len(block)
            if codec is not None:
                block = _compress(block, codec)
            checksum = xxhash.xxh3_64_hexdigest(block)
            groups = (part[0][0], part[-1][0])
            index.append([name, table.kind, table.namespaced, *groups, offset, len(block), len(part), checksum])
            if codec is not None:
                index[-1].append(size)
            blocks.append(block)
            offset += len(block)
    if not blocks:
        return b""
    head: dict[str, Any] = {"max_parallelism": max_parallelism, "blocks": index}
    lives = {name: table.ttl_ms for name, table in sorted(content.items()) if table.ttl_ms is not None}
    if lives:
        head["ttl"] = lives
    footer = json.dumps(head if codec is None else {**head, "codec": codec}).encode()
    return b"".join((_MAGIC, *blocks, footer, _checksum(footer), len(footer).to_bytes(8, "big"), _MAGIC))


def _compress(block: bytes, codec: str) -> bytes:
    import pyarrow as pa

    return bytes(pa.compress(block, codec, asbytes=True))


def _decompress(block: memoryview, codec: str, size: int, where: str) -> bytes:
    import pyarrow as pa

    if codec not in CODECS:
        raise VersionError(f"{where} is compressed with {codec!r}, and this Beadline knows {' and '.join(CODECS)}")
    return bytes(pa.decompress(block, size, codec, asbytes=True))


def _checksum(footer: bytes) -> bytes:
    return xxhash.xxh3_64_digest(footer)


def _grouped_rows(table: TableChanges, max_parallelism: int) -> list[tuple[int, Any]]:
    """Slots by key group, in the order of their first touch. Runs once an entry and step, so it is written out."""
    groups: defaultdict[int, list[Any]] = defaultdict(list)
    namespaced, hashed = table.namespaced, hash_encoded
    for slot in table.changes:
        key = slot[0] if namespaced else slot
        encoded = key.encoded if key.__class__ is BoxedKey else encode_key(key)
        groups[hashed(encoded) % max_parallelism].append(slot)
    return [(group, slot) for group in sorted(groups) for slot in groups[group]]


def _sorted_rows(table: TableChanges, max_parallelism: int) -> list[tuple[int, Any]]:
    """Slots by key group and encoded key."""
    rows = []
    for slot in table.changes:
        key = slot[0] if table.namespaced else slot
        encoded = key.encoded if key.__class__ is BoxedKey else encode_key(key)
        rows.append((hash_encoded(encoded) % max_parallelism, encoded, slot))
    rows.sort(key=itemgetter(0, 1))  # one key may have several slots, which need not be comparable
    return [(group, slot) for group, _, slot in rows]


def decode_run(data: bytes, key_groups: range | None = None, where: str = "a run") -> RunContent:
    """The changes of a run, restricted to a range of key groups. ``where`` names the run in errors."""
    content: RunContent = {}
    view = memoryview(data)
    for name, part in read_blocks(lambda offset, size: view[offset : offset + size], len(data), key_groups, where):
        table = content.get(name)
        if table is None:
            content[name] = part
        else:
            table.changes.update(part.changes)
    return content


def read_blocks(
    read: Callable[[int, int], bytes | memoryview],
    size: int,
    key_groups: range | None = None,
    where: str = "a run",
) -> Iterator[tuple[str, TableChanges]]:
    """The changes of a run, a block at a time, so that a run need not fit into memory.

    :param read: gives some bytes of the run, by offset and length
    :param size: how many bytes the run has
    """
    if not size:
        return  # what a merge leaves when everything was removed again
    frame = len(_MAGIC)
    tail = bytes(read(size - frame - 16, frame + 16)) if size >= 2 * frame + 16 else b""
    if bytes(read(0, frame)) != _MAGIC or tail[16:] != _MAGIC:
        raise VersionError(f"{where} is not a state run or is cut short ({size} bytes)")
    length = int.from_bytes(tail[8:16], "big")
    start = size - frame - 16 - length
    index = bytes(read(start, length)) if start >= 0 else b""
    if start < 0 or _checksum(index) != tail[:8]:
        raise VersionError(f"{where}: checksum of the index is wrong")
    footer = json.loads(index)
    codec, lives = footer.get("codec"), footer.get("ttl", {})
    for name, kind, namespaced, first, last, offset, length, _count, checksum, *plain_size in footer["blocks"]:
        if key_groups is not None and (last < key_groups.start or first >= key_groups.stop):
            continue
        block = memoryview(read(offset, length))
        if xxhash.xxh3_64_hexdigest(block) != checksum:
            raise VersionError(f"{where}: checksum of table '{name}', key groups {first} to {last}, is wrong")
        groups, slots, payloads = loads(block if codec is None else _decompress(block, codec, plain_size[0], where))
        if key_groups is None or (first >= key_groups.start and last < key_groups.stop):
            changes = dict(zip(slots, payloads, strict=True))
        else:
            mine = zip(groups, slots, payloads, strict=True)
            changes = {slot: payload for group, slot, payload in mine if group in key_groups}
        yield name, TableChanges(kind, namespaced, changes, lives.get(name))


def merge_contents(contents: Iterable[RunContent]) -> RunContent:
    """One content that equals several applied in order."""
    merged: RunContent = {}
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


def without_tombstones(content: RunContent) -> RunContent:
    """A content that lies at the bottom of a handle: removals have nothing left to remove."""
    kept: RunContent = {}
    for name, table in content.items():
        settle = TABLE_KINDS[table.kind].settle
        changes = {slot: settle(change) for slot, change in table.changes.items()}
        changes = {slot: change for slot, change in changes.items() if change is not None}
        kept[name] = replace(table, changes=changes)
    return kept


def without_expired(content: RunContent, now: int) -> RunContent:
    """A content at the bottom of a handle, as :func:`without_tombstones` leaves it, without what is over by now."""
    kept: RunContent = {}
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
