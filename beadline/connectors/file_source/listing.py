"""Which files there are, and whether they are still what they were.

A file that was listed may grow: what is appended is not read. It must not shrink, vanish or be replaced, since
rows would be lost silently. Its size and a digest of both ends of its content travel with every range, and each
task looks at them when it opens the file and again when it has read its range. The content decides and not the inode
or the time, so that a file that was put back counts as the same.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit

import xxhash

from beadline.connectors.file_source.opening import opened, read_at, size_now
from beadline.errors import ConfigurationError, InputError
from beadline.state.segments.files import entries_of, is_folder, join, local_path, size_of

_MARK_BYTES = 4096
_REMOTE = frozenset({"abfs", "abfss", "gs", "hdfs", "s3", "viewfs"})
PUT_BACK = "Put the file back as it was: the job goes on from where it stood when it restarts or is resumed (-s latest)"


@dataclass(frozen=True)
class FileRange:
    """Part of a file, as it was when it was listed.

    :ivar size: how many bytes the file had
    :ivar mark: what :func:`mark_of` gave, None if that is not known
    :ivar unit: what ``start`` and ``end`` count
    """

    path: str
    start: int
    end: int
    size: int
    mark: str | None = None
    unit: str = "byte"


def listed(paths: list[str], known: frozenset[str]) -> list[list[Any]]:
    """Path, size and mark of files by name; hidden ones and those whose name starts with an underscore are left out,
    as in Flink."""
    found: list[list[Any]] = []
    for path in paths:
        if local_path(path) is None:
            found += _listed_remotely(path, known)
        elif os.path.isdir(path):
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(f for f in folders if not f.startswith((".", "_")))
                inside = [os.path.join(folder, n) for n in sorted(names) if not n.startswith((".", "_"))]
                found += _entries(inside, known, may_vanish=True)
        elif os.path.exists(path):
            found += _entries([path], known, may_vanish=False)
        elif glob.has_magic(path) and glob.glob(path):
            found += _entries(sorted(glob.glob(path)), known, may_vanish=True)
        else:
            raise ConfigurationError(f"the input path does not exist: {path}")
    return found


def _listed_remotely(path: str, known: frozenset[str]) -> list[list[Any]]:
    try:
        if size_of(path) is not None:
            return _entries([path], known, may_vanish=False)
        if not is_folder(path):
            raise ConfigurationError(f"the input path does not exist: {path}")
        return _entries(list(_below(path)), known, may_vanish=True)
    except OSError as error:
        raise ConfigurationError(f"can't list the input path {path}: {error}") from error


def _below(folder: str) -> Iterator[str]:
    for entry in entries_of(folder):
        path = join(folder, quote(entry.name))
        if entry.name.startswith((".", "_")):
            continue
        if entry.folder:
            yield from _below(path)
        else:
            yield path


def _entries(paths: list[str], known: frozenset[str], may_vanish: bool) -> list[list[Any]]:
    """Path, size and mark of files that are not yet known."""
    found = []
    for path in paths:
        if path in known:
            continue
        try:
            size = os.path.getsize(path) if local_path(path) is not None else size_of(path)
            if size:
                with opened(path) as stream:
                    found.append([path, size, mark_of(stream, size)])
            else:
                found.append([path, 0, None])  # it may be a pipe, which would keep us waiting
        except FileNotFoundError:
            if not may_vanish:  # others come and go while a folder is listed
                raise
        except OSError as error:
            raise ConfigurationError(f"can't read the input file {path}: {error}") from error
    return found


def mark_of(stream: BinaryIO, size: int) -> str:
    """A digest of both ends of a file's first ``size`` bytes: cheap, and enough to tell another file."""
    head = read_at(stream, min(size, _MARK_BYTES), 0)
    tail = read_at(stream, min(size, _MARK_BYTES), max(0, size - _MARK_BYTES))
    return xxhash.xxh3_64_hexdigest(head + tail)


def check_same(stream: BinaryIO, given: FileRange) -> None:
    """Raise unless the file still has what it had when it was listed."""
    size = size_now(stream)
    if size < given.size:
        raise cut_short(given, given.start, size)
    if given.mark is not None and mark_of(stream, given.size) != given.mark:
        raise InputError(
            f"the content of {given.path} has changed since it was listed with {given.size} bytes, and it is still to "
            f"be read from {given.unit} {given.start} on. {PUT_BACK}"
        )


def cut_short(given: FileRange, position: int, size: int) -> InputError:
    return InputError(
        f"{given.path} has {size} bytes and had {given.size} when it was listed: it can't be read from {given.unit} "
        f"{position} on. {PUT_BACK}"
    )


def checked_path(path: str) -> str:
    """A local path without its ``file:``, or a URI."""
    local = local_path(path)
    if local is not None:
        return local
    parts = urlsplit(path)
    if parts.scheme not in _REMOTE:
        raise ConfigurationError(
            f"files can't be read from {parts.scheme}://, only from {', '.join(sorted(_REMOTE))} and from paths that "
            "the driver and all executors see. Mount it, or read it with Spark and use from_dataframe()"
        )
    if parts.username is not None:
        raise ConfigurationError(
            f"the path on {parts.hostname} has a name or password in it, which would appear in messages. Give them by "
            "the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return path
