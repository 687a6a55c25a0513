"""Is every byte of a snapshot where it should be? One check per file, so that tasks can share the work."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.state.segments.files import read_file, size_of
from beadline.state.segments.version import SegmentRef, checksum_of

_THREADS = 8


@dataclass(frozen=True)
class Part:
    """A part of a file that a snapshot needs."""

    offset: int
    size: int
    checksum: str | None


@dataclass(frozen=True)
class FileCheck:
    """What a snapshot needs of one file. Plain data, to be sent to wherever the check runs."""

    path: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Problem:
    """What is wrong with a file."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


def checks_of(segments: Iterable[SegmentRef]) -> list[FileCheck]:
    """The checks of all files of some segments, by path."""
    parts: dict[str, set[Part]] = {}
    for segment in segments:
        if segment.path is not None:
            parts.setdefault(segment.path, set()).add(Part(segment.offset, segment.size, segment.checksum))
    return [FileCheck(path, tuple(sorted(parts[path], key=lambda p: (p.offset, p.size)))) for path in sorted(parts)]


def check_file(check: FileCheck) -> Problem | None:
    """Look at one file: is it there, is it long enough, are its bytes the ones that were written."""
    try:
        size = size_of(check.path)
        if size is None:
            return Problem(check.path, "the file is missing")
        for part in check.parts:
            if size < part.offset + part.size:
                return Problem(
                    check.path, f"the file has {size} bytes and should have at least {part.offset + part.size}"
                )
            data = read_file(check.path, part.offset, part.size)
            if len(data) != part.size:
                return Problem(check.path, f"only {len(data)} of {part.size} bytes at {part.offset} can be read")
            found = checksum_of(data)
            if part.checksum is not None and found != part.checksum:
                return Problem(
                    check.path,
                    f"the checksum of {part.size} bytes at {part.offset} is {found} and should be {part.checksum}",
                )
    except OSError as error:
        return Problem(check.path, f"it can't be read: {error}")
    return None


def verify(snapshot: Snapshot) -> list[Problem]:
    """All problems of a snapshot's files; none if it can be restored."""
    checks = checks_of(snapshot.segments)
    if not checks:
        return []
    with ThreadPoolExecutor(min(_THREADS, len(checks))) as pool:
        return [problem for problem in pool.map(check_file, checks) if problem is not None]
