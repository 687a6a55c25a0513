"""How the files of a canonical savepoint are called: ``<operator>/<state>/part-<number>-<hash>.parquet``.

Folders carry the names that the program gave, made safe: any file system takes them, and no reader of Parquet mistakes
one for a hidden folder (``_x``, ``.x``) or a partition (``a=b``).
"""

from __future__ import annotations

import re

import xxhash

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST = 100


def safe_name(name: str) -> str:
    """A safe name as it is; of any other name the safe part, and a hash that keeps different names apart."""
    safe = _UNSAFE.sub("-", name).lstrip("_.-")[:_LONGEST].rstrip(".-")
    return safe if safe and safe == name else f"{safe or 'x'}-{xxhash.xxh3_64_hexdigest(name.encode())[:8]}"


def part_name(number: int, digest: str) -> str:
    """The file of one part of a state, by its number and a 128-bit hash of its content: a task that runs twice writes
    it twice, or another file next to it."""
    return f"part-{number:05d}-{digest}.parquet"
