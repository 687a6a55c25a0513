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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
    """The changes of one table in one run."""

    kind: str
    namespaced: bool
    changes: Changes


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
    if not data:
        return {}  # what a merge leaves when everything was removed again
    if len(data) < 2 * len(_MAGIC) + 16 or data[: len(_MAGIC)] != _MAGIC or data[-len(_MAGIC) :] != _MAGIC:
        raise VersionError(f"{where} is not a state run or is cut short ({len(data)} bytes)")
    footer_end = len(data) - len(_MAGIC) - 16
    length = int.from_bytes(data[footer_end + 8 : footer_end + 16], "big")
    if length > footer_end or _checksum(data[footer_end - length : footer_end]) != data[footer_end : footer_end + 8]:
        raise VersionError(f"{where}: checksum of the index is wrong")
    footer = json.loads(data[footer_end - length : footer_end])
    content: RunContent = {}
    view = memoryview(data)
    codec = footer.get("codec")
    for name, kind, namespaced, first, last, offset, length, _count, checksum, *size in footer["blocks"]:
        if key_groups is not None and (last < key_groups.start or first >= key_groups.stop):
            continue
        block = view[offset : offset + length]
        if xxhash.xxh3_64_hexdigest(block) != checksum:
            raise VersionError(f"{where}: checksum of table '{name}', key groups {first} to {last}, is wrong")
        groups, slots, payloads = loads(block if codec is None else _decompress(block, codec, size[0], where))
        table = content.get(name)
        if table is None:
            table = content[name] = TableChanges(kind, namespaced, {})
        if key_groups is None or (first >= key_groups.start and last < key_groups.stop):
            table.changes.update(zip(slots, payloads, strict=True))
        else:
            for group, slot, payload in zip(groups, slots, payloads, strict=True):
                if group in key_groups:
                    table.changes[slot] = payload
    return content


def merge_contents(contents: Iterable[RunContent]) -> RunContent:
    """One content that equals several applied in order."""
    merged: RunContent = {}
    for content in contents:
        for name, newer in content.items():
            older = merged.get(name)
            if older is None:
                merged[name] = TableChanges(newer.kind, newer.namespaced, dict(newer.changes))
                continue
            merge = TABLE_KINDS[newer.kind].merge
            changes = older.changes
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
        kept[name] = TableChanges(table.kind, table.namespaced, changes)
    return kept


def count_entries(content: Mapping[str, TableChanges]) -> int:
    return sum(len(table.changes) for table in content.values())
