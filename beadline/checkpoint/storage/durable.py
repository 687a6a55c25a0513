"""Making the runs of a snapshot durable, each once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock

import xxhash

from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.errors import VersionError
from beadline.state.runs.files import identity_of, join, parent, read_file, read_run, size_of, sync, write_file
from beadline.state.runs.version import RunRef, checksum_of

_THREADS = 8


@dataclass(frozen=True)
class Bundle:
    """Where the new files of a snapshot are written, and where they will be once it is published.

    :ivar inline_threshold: runs up to this size stay inline
    """

    folder: str
    published: str
    inline_threshold: int


class DurableFiles:
    """Remembers which runs are durable, so that a checkpoint only writes what is new. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._synced: dict[str, tuple[int, ...] | None] = {}
        self._checksums: dict[str, dict[tuple[int, int], str]] = {}
        self._written: dict[tuple[str, int], RunRef] = {}
        self._copied: dict[tuple[str, int, int], RunRef] = {}
        self._suspect: set[str] = set()

    def know(self, snapshot: Snapshot) -> None:
        """A completed checkpoint was read: its files are durable."""
        for run in snapshot.runs:
            if run.path is not None and run.checksum is not None:
                with self._lock:
                    self._synced[run.path] = identity_of(run.path)
                    self._checksums.setdefault(run.path, {})[run.offset, run.size] = run.checksum

    def forget(self, path: str) -> None:
        """A file was deleted. If the same content is written again, it must be made durable again."""
        with self._lock:
            self._synced.pop(path, None)
            self._checksums.pop(path, None)
            self._written = {key: run for key, run in self._written.items() if run.path != path}
            self._copied = {key: run for key, run in self._copied.items() if path not in (run.path, key[0])}

    def bring(self, snapshot: Snapshot, bundle: Bundle, must_copy: Callable[[str], bool]) -> tuple[Snapshot, int]:
        """The snapshot with all its runs durable and checked, and how many bytes are new.

        1. copy the runs whose files must not be referred to
        2. write the inline runs that are too large for the metadata, all to one file
        3. make the files durable that tasks have written since the last time
        """
        runs = set(snapshot.runs)
        moved: dict[RunRef, RunRef] = {}
        written = 0
        for run in runs:
            if run.path is not None and must_copy(run.path):
                moved[run], size = self._copy(run, bundle)
                written += size
        written += self._write_inline((run for run in runs if run.inline is not None), bundle, moved)
        written += self._sync_new([run for run in runs if run not in moved and run.path is not None], moved)
        if any(run.path is not None for run in moved.values()):
            sync(bundle.folder)
        return snapshot.with_runs(lambda run: moved.get(run, run)), written

    def _copy(self, run: RunRef, bundle: Bundle) -> tuple[RunRef, int]:
        assert run.path is not None
        key = (run.path, run.offset, run.size)
        with self._lock:
            known = self._copied.get(key)
        if known is not None:
            return replace(run, path=known.path, offset=known.offset, checksum=known.checksum), 0
        try:
            data = read_run(run)
        except VersionError as error:
            raise SnapshotError(str(error)) from error
        made = replace(run, offset=0, checksum=checksum_of(data), path=self._write(data, "run", bundle))
        with self._lock:
            self._copied[key] = made
        return made, len(data)

    def _write(self, data: bytes, kind: str, bundle: Bundle) -> str:
        # A name of its own: the same content may be in a file that is just being deleted.
        name = f"{xxhash.xxh3_128_hexdigest(data)}-{uuid.uuid4().hex[:12]}.{kind}"
        write_file(join(bundle.folder, name), data, durable=True)
        return join(bundle.published, name)

    def _write_inline(self, runs: Iterable[RunRef], bundle: Bundle, moved: dict[RunRef, RunRef]) -> int:
        new: list[RunRef] = []
        for run in sorted(runs, key=lambda run: run.version):
            assert run.inline is not None
            checksum = checksum_of(run.inline)
            with self._lock:
                known = self._written.get((checksum, run.size))
            if run.size <= bundle.inline_threshold:
                moved[run] = replace(run, checksum=checksum)
            elif known is not None:
                moved[run] = replace(run, inline=None, path=known.path, offset=known.offset, checksum=checksum)
            else:
                new.append(replace(run, checksum=checksum))
        if not new:
            return 0
        data = b"".join(run.inline or b"" for run in new)
        path = self._write(data, "pack", bundle)
        offset = 0
        for run in new:
            assert run.checksum is not None
            made = replace(run, inline=None, path=path, offset=offset)
            with self._lock:
                self._written[run.checksum, run.size] = made
            moved[replace(run, checksum=None)] = moved[run] = made
            offset += run.size
        return len(data)

    def _sync_new(self, runs: list[RunRef], moved: dict[RunRef, RunRef]) -> int:
        by_path: dict[str, list[RunRef]] = {}
        for run in runs:
            assert run.path is not None
            by_path.setdefault(run.path, []).append(run)
        # A task that ran twice may have replaced a file by an equal one, which is not durable yet.
        identities = {path: identity_of(path) for path in by_path}
        with self._lock:
            new = [path for path in by_path if path not in self._synced or self._synced[path] != identities[path]]
        sizes = _in_parallel(self._sync_file, new)
        for path, size in zip(new, sizes, strict=True):
            needed = max(run.offset + run.size for run in by_path[path])
            if size is None or size < needed:
                what = "is missing" if size is None else f"has {size} bytes and should have at least {needed}"
                raise SnapshotError(f"the state file {path} {what}")
        for folder in {parent(path) for path in new}:
            sync(folder)
        with self._lock:
            self._synced.update((path, identities[path]) for path in new)
        for group in by_path.values():
            for run in group:
                moved[run] = replace(run, checksum=self._checksum(run))
        return sum(size for size in sizes if size is not None)

    def _checksum(self, run: RunRef) -> str:
        """The checksum of a run that has none yet costs one read of it."""
        assert run.path is not None
        key = (run.offset, run.size)
        with self._lock:
            checksum = run.checksum or self._checksums.get(run.path, {}).get(key)
        if checksum is None:
            checksum = checksum_of(read_file(run.path, run.offset, run.size))
        with self._lock:
            self._checksums.setdefault(run.path, {})[key] = checksum
        return checksum

    def _sync_file(self, path: str) -> int | None:
        """Make one file durable and give its size.

        The system reports a failed sync once and may drop what it could not write: a second sync would succeed
        and prove nothing. So a file that failed is written again.
        """
        size = size_of(path)
        if size is None:
            return None
        if path in self._suspect:
            write_file(path, read_file(path), durable=True)
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
