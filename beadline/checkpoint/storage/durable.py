"""Making the segments of a snapshot durable, each once; and checking that every byte of it is where it should be."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock

import xxhash

from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.connectors.files.named import NamedFile, named_files
from beadline.errors import VersionError
from beadline.state.disks import LOST
from beadline.state.segments.files import (
    identity_of,
    is_link,
    join,
    parent,
    read_file,
    read_segment,
    size_of,
    sync,
    write_file,
)
from beadline.state.segments.version import SegmentRef, checksum_of

_THREADS = 8

# Offset, size and checksum of a part of a file.
_Part = tuple[int, int, str | None]


@dataclass(frozen=True)
class Bundle:
    """Where the new files of a snapshot are written, where they will be when it is published, and what stays inline."""

    folder: str
    published: str
    inline_threshold: int


class DurableFiles:
    """Remembers which segments are durable, so that a checkpoint only writes what is new. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._synced: dict[str, tuple[int, ...] | None] = {}
        self._checksums: dict[str, dict[tuple[int, int], str]] = {}
        self._written: dict[tuple[str, int], SegmentRef] = {}
        self._copied: dict[tuple[str, int, int], SegmentRef] = {}
        self._suspect: set[str] = set()

    def know(self, snapshot: Snapshot) -> None:
        """A completed checkpoint was read: its files are durable."""
        for segment in snapshot.segments:
            if segment.path is not None and segment.checksum is not None:
                with self._lock:
                    self._synced[segment.path] = identity_of(segment.path)
                    self._checksums.setdefault(segment.path, {})[segment.offset, segment.size] = segment.checksum

    def forget(self, path: str) -> None:
        """A file was deleted. If the same content is written again, it must be made durable again."""
        with self._lock:
            self._synced.pop(path, None)
            self._checksums.pop(path, None)
            self._written = {key: segment for key, segment in self._written.items() if segment.path != path}
            self._copied = {key: segment for key, segment in self._copied.items() if path not in (segment.path, key[0])}

    def bring(self, snapshot: Snapshot, bundle: Bundle, must_copy: Callable[[str], bool]) -> tuple[Snapshot, int]:
        """The snapshot with all its segments durable and checked, and how many bytes are new.

        1. copy the segments whose files must not be referred to
        2. write the inline segments that are too large for the metadata, all to one file
        3. make the files durable that tasks have written since the last time
        """
        segments = set(snapshot.segments)
        moved: dict[SegmentRef, SegmentRef] = {}
        written = 0
        for segment in segments:
            if segment.path is not None and must_copy(segment.path):
                moved[segment], size = self._copy(segment, bundle)
                written += size
        written += self._write_inline((segment for segment in segments if segment.inline is not None), bundle, moved)
        written += self._sync_new(
            [segment for segment in segments if segment not in moved and segment.path is not None], moved
        )
        if any(segment.path is not None for segment in moved.values()):
            sync(bundle.folder)
        return snapshot.with_segments(lambda segment: moved.get(segment, segment)), written

    def _copy(self, segment: SegmentRef, bundle: Bundle) -> tuple[SegmentRef, int]:
        assert segment.path is not None
        key = (segment.path, segment.offset, segment.size)
        with self._lock:
            known = self._copied.get(key)
        if known is not None:
            return replace(segment, path=known.path, offset=known.offset, checksum=known.checksum), 0
        try:
            data = read_segment(segment)
        except VersionError as error:
            raise SnapshotError(str(error)) from error
        made = replace(segment, offset=0, checksum=checksum_of(data), path=self._write(data, "run", bundle))
        with self._lock:
            self._copied[key] = made
        return made, len(data)

    def _write(self, data: bytes, kind: str, bundle: Bundle) -> str:
        # A name of its own: the same content may be in a file that is just being deleted.
        name = f"{xxhash.xxh3_128_hexdigest(data)}-{uuid.uuid4().hex[:12]}.{kind}"
        write_file(join(bundle.folder, name), data, durable=True)
        return join(bundle.published, name)

    def _write_inline(self, segments: Iterable[SegmentRef], bundle: Bundle, moved: dict[SegmentRef, SegmentRef]) -> int:
        new: list[SegmentRef] = []
        for segment in sorted(segments, key=lambda segment: segment.version):
            assert segment.inline is not None
            checksum = checksum_of(segment.inline)
            with self._lock:
                known = self._written.get((checksum, segment.size))
            if segment.size <= bundle.inline_threshold:
                moved[segment] = replace(segment, checksum=checksum)
            elif known is not None:
                moved[segment] = replace(segment, inline=None, path=known.path, offset=known.offset, checksum=checksum)
            else:
                new.append(replace(segment, checksum=checksum))
        if not new:
            return 0
        data = b"".join(segment.inline or b"" for segment in new)
        path = self._write(data, "pack", bundle)
        offset = 0
        for segment in new:
            assert segment.checksum is not None
            made = replace(segment, inline=None, path=path, offset=offset)
            with self._lock:
                self._written[segment.checksum, segment.size] = made
            moved[replace(segment, checksum=None)] = moved[segment] = made
            offset += segment.size
        return len(data)

    def _sync_new(self, segments: list[SegmentRef], moved: dict[SegmentRef, SegmentRef]) -> int:
        by_path: dict[str, list[SegmentRef]] = {}
        for segment in segments:
            assert segment.path is not None
            by_path.setdefault(segment.path, []).append(segment)
        # A task that ran twice may have replaced a file by an equal one, which is not durable yet.
        identities = {path: identity_of(path) for path in by_path}
        with self._lock:
            new = [path for path in by_path if path not in self._synced or self._synced[path] != identities[path]]
        sizes = _in_parallel(lambda path: self._sync_file(path, by_path[path]), new)
        for path, size in zip(new, sizes, strict=True):
            needed = max(segment.offset + segment.size for segment in by_path[path])
            if size is None or size < needed:
                what = "is missing" if size is None else f"has {size} bytes and should have at least {needed}"
                raise SnapshotError(f"the state file {path} {what}")
        for folder in {parent(path) for path in new}:
            try:
                sync(folder)
            except OSError:
                self._suspect.update(path for path in new if parent(path) == folder)
                raise
        with self._lock:
            self._synced.update((path, identities[path]) for path in new)
        for group in by_path.values():
            for segment in group:
                moved[segment] = replace(segment, checksum=self._checksum(segment))
        return sum(size for size in sizes if size is not None)

    def _checksum(self, segment: SegmentRef) -> str:
        """The checksum of a segment that has none yet costs one read of it."""
        assert segment.path is not None
        key = (segment.offset, segment.size)
        with self._lock:
            checksum = segment.checksum or self._checksums.get(segment.path, {}).get(key)
        if checksum is None:
            checksum = checksum_of(read_file(segment.path, segment.offset, segment.size))
        with self._lock:
            self._checksums.setdefault(segment.path, {})[key] = checksum
        return checksum

    def _sync_file(self, path: str, segments: list[SegmentRef]) -> int | None:
        """Make one file durable and give its size. The system reports a failed sync once and may drop what it could not
        write: a second sync would succeed and prove nothing. So a file that failed is written again, if what can be
        read of it is what was written."""
        size = size_of(path)
        if size is None:
            return None
        if path in self._suspect:
            data = read_file(path)
            for each in segments:
                if each.checksum not in (None, checksum_of(data[each.offset : each.offset + each.size])):
                    raise SnapshotError(
                        f"the state file {path} could not be brought to the disk, and is damaged. {LOST}"
                    )
            write_file(path, data, durable=True)
            self._suspect.discard(path)
            return size
        try:
            sync(path)
        except OSError:
            self._suspect.add(path)
            raise
        return size


def _in_parallel(function: Callable[[str], int | None], paths: list[str]) -> list[int | None]:
    """The disk takes several syncs at once."""
    if len(paths) < 2:
        return [function(path) for path in paths]
    with ThreadPoolExecutor(min(_THREADS, len(paths))) as pool:
        return list(pool.map(function, paths))


@dataclass(frozen=True)
class Problem:
    """What is wrong with a file."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


def verify(snapshot: Snapshot, spare: bool = False) -> list[Problem]:
    """All problems of a snapshot's files, those that its sinks have staged included; none if it can be restored.

    :param spare: also look at what is only needed if a transaction is aborted that is ready
    """
    parts: dict[str, set[_Part]] = {}
    for segment in snapshot.segments:
        if segment.path is not None:
            parts.setdefault(segment.path, set()).add((segment.offset, segment.size, segment.checksum))
    looks: list[tuple[str, Callable[[], str]]] = [
        (path, partial(_problem_of, path, parts[path])) for path in sorted(parts)
    ]
    staged, found = _staged_files(snapshot)
    looks += [(file.path, file.problem) for file in staged if spare or not file.is_spare]
    if looks:
        with ThreadPoolExecutor(min(_THREADS, len(looks))) as pool:
            answers = pool.map(lambda look: look[1](), looks)
            found += [Problem(path, why) for (path, _), why in zip(looks, answers, strict=True) if why]
    return found


def all_files(snapshot: Snapshot) -> set[str]:
    """The files that :func:`verify` looks at, of state and of output."""
    return {*snapshot.files(), *(file.path for file in _staged_files(snapshot)[0])}


def _staged_files(snapshot: Snapshot) -> tuple[list[NamedFile], list[Problem]]:
    """What the sinks have staged, and the sinks whose data can't be understood."""
    files: dict[NamedFile, None] = {}
    problems = []
    for uid, data in snapshot.committables().items():
        try:
            files.update(dict.fromkeys(named_files(data)))
        except ValueError as error:
            problems.append(Problem(f"sink '{uid}'", str(error)))
    return list(files), problems


def _problem_of(path: str, parts: set[_Part]) -> str:
    """Look at one file: is it there, is it long enough, are its bytes the ones that were written."""
    try:
        available = size_of(path)
        if available is None:
            return "the file is missing"
        if is_link(path):
            return "it is a symbolic link, which may lead to anybody's file: put the file itself there"
        for offset, size, checksum in sorted(parts, key=lambda part: part[:2]):
            if available < offset + size:
                return f"the file has {available} bytes and should have at least {offset + size}"
            data = read_file(path, offset, size)
            if len(data) != size:
                return f"only {len(data)} of {size} bytes at {offset} can be read"
            found = checksum_of(data)
            if checksum is not None and found != checksum:
                return f"the checksum of {size} bytes at {offset} is {found} and should be {checksum}"
    except OSError as error:
        return f"it can't be read: {error}"
    return ""
