"""Where segments live: one folder that all workers reach. Files are named by content, written under another name and
renamed.

A path is a local one (plain, or with ``file:``) or any URI that ``pyarrow.fs`` knows. On local disks durable means
``os.fsync`` on the file and on its folder, which ``pyarrow.fs`` does not offer; elsewhere a file is durable when its
stream has been closed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import xxhash

from beadline.errors import ConfigurationError, VersionError
from beadline.state.disks import naming
from beadline.state.segments.version import SegmentRef, checksum_of

if TYPE_CHECKING:
    from beadline.state.segments.drafts import Draft

_OBJECT_STORES = frozenset({"s3", "gs", "gcs", "abfs", "abfss"})


class SegmentFiles:
    """Reads and writes segment files below a folder: a local path, or any URI that ``pyarrow.fs`` knows."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._folder = local_path(root) or root

    def write(self, name: str, data: bytes) -> str:
        """Store a file and give its path. Writing the same content again changes nothing."""
        return write_file(join(self._folder, name), data)

    def store(self, name: str, data: bytes, version: str, entries: int) -> SegmentRef:
        """Store a file that holds one segment, and give the reference with its checksum."""
        return SegmentRef(version, entries, len(data), path=self.write(name, data), checksum=checksum_of(data))

    def draft(self) -> Draft:
        """A new file of this folder that is written piece by piece."""
        from beadline.state.segments.drafts import Draft

        return Draft(self._folder)


def read_segment(segment: SegmentRef) -> bytes:
    """The bytes of a segment, with the length and the checksum that its reference names."""
    if segment.inline is not None:
        return segment.inline
    assert segment.path is not None
    try:
        data = read_file(segment.path, segment.offset, segment.size)
    except OSError as error:
        raise VersionError(f"can't read {segment!r}: {error}") from error
    if len(data) != segment.size:
        raise VersionError(f"{segment!r} is cut short: {len(data)} bytes")
    if segment.checksum is not None and checksum_of(data) != segment.checksum:
        raise VersionError(f"{segment!r}: its checksum is {checksum_of(data)} and should be {segment.checksum}")
    return data


def read_range(segment: SegmentRef, offset: int, size: int) -> bytes | memoryview:
    """Some bytes of a segment. Its blocks have checksums of their own."""
    if segment.inline is not None:
        return memoryview(segment.inline)[offset : offset + size]
    assert segment.path is not None
    try:
        data = read_file(segment.path, segment.offset + offset, size)
    except OSError as error:
        raise VersionError(f"can't read {segment!r}: {error}") from error
    if len(data) != size:
        raise VersionError(f"{segment!r} is cut short: {len(data)} bytes at {offset} instead of {size}")
    return data


# -- paths


def local_path(path: str) -> str | None:
    """A path of this machine without its ``file:``; None if it is anywhere else.

    As a URI it may be percent-encoded. A ``?`` or ``#`` is part of its name (and of a glob), not the start of a query.
    """
    if "://" not in path and not path.startswith("file:"):
        return path
    if not path.startswith("file:"):
        return None
    rest = path.removeprefix("file:")
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]  # without the host
    return unquote(rest)


def join(folder: str, *names: str) -> str:
    """A path below a folder; the query of a URI (``?endpoint_override=…``) stays at the end."""
    base, mark, query = folder.partition("?") if local_path(folder) is None else (folder, "", "")
    return "/".join((base.rstrip("/"), *names)) + mark + query


def parent(path: str) -> str:
    base, mark, query = path.partition("?") if local_path(path) is None else (path, "", "")
    return (base.rstrip("/").rpartition("/")[0] or "/") + mark + query


def base_name(path: str) -> str:
    return (path.partition("?")[0] if local_path(path) is None else path).rstrip("/").rpartition("/")[2]


@lru_cache(maxsize=32)
def _file_system(scheme: str, authority: str, query: str) -> tuple[Any, str]:
    from pyarrow import fs

    uri = f"{scheme}://{authority}/" + (f"?{query}" if query else "")
    try:
        system, root = fs.FileSystem.from_uri(uri)
    except (ValueError, NotImplementedError, OSError) as error:
        raise ConfigurationError(
            f"can't open the file system of {uri}: {error}. Use a local path or a URI that pyarrow.fs knows, such as "
            "hdfs:// or s3://."
        ) from error
    return system, root.rstrip("/") + "/" if root else ""


def _remote(path: str) -> tuple[Any, str]:
    parts = urlsplit(path)
    system, root = _file_system(parts.scheme, parts.netloc, parts.query)
    return system, root + unquote(parts.path).lstrip("/")


# -- files


def read_file(path: str, offset: int = 0, size: int | None = None) -> bytes:
    """Some or all bytes of a file; fewer than asked for if it ends earlier."""
    local = local_path(path)
    if local is None:
        system, inner = _remote(path)
        with system.open_input_file(inner) as stream:
            data: bytes = stream.read_at(max(0, stream.size() - offset) if size is None else size, offset)
        return data
    with open(local, "rb") as file:
        file.seek(offset)
        return file.read() if size is None else file.read(size)


def open_remote(path: str) -> Any:
    """A file of ``pyarrow.fs`` that is not local, to read from anywhere in it."""
    system, inner = _remote(path)
    return system.open_input_file(inner)


def write_file(path: str, data: bytes, durable: bool = False) -> str:
    """Write a file so that nobody ever sees a part of it, and give its path.

    :param durable: wait until the disk has it. The name is durable once its folder is synced too.
    """
    local = local_path(path)
    if local is None:
        write_remote(path, (data,))
        return path
    folder, _, name = local.rpartition("/")
    temporary = f"{folder or '.'}/.{name}.{uuid.uuid4().hex[:8]}"
    try:
        with naming(local), open(temporary, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, local)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return local


def write_remote(path: str, parts: Iterable[bytes]) -> None:
    """Write a file that is not local so that nobody ever sees a part of it."""
    system, inner = _remote(path)
    folder, _, name = inner.rpartition("/")
    # An object store shows an object when its stream is closed, all of it; a rename there would be a copy.
    whole = urlsplit(path).scheme in _OBJECT_STORES
    temporary = inner if whole else f"{folder}/.{name}.{uuid.uuid4().hex[:8]}"
    with system.open_output_stream(temporary) as stream:
        for part in parts:
            stream.write(part)
    if not whole:
        system.move(temporary, inner)


def rename(path: str, target: str) -> None:
    """Give a file another name in the same file system, in one act. Object stores can't do that."""
    local, local_target = local_path(path), local_path(target)
    if local is not None and local_target is not None:
        os.rename(local, local_target)
        return
    system, inner = _remote(path)
    system.move(inner, _remote(target)[1])


def sync(path: str) -> None:
    """Wait until the disk has a local file's content, or a local folder's names. It does not matter who wrote it."""
    local = local_path(path)
    if local is None:
        return
    descriptor = os.open(local, os.O_RDONLY)
    try:
        with naming(local):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_of(path: str) -> int | None:
    """The size of a file in bytes, None if there is no such file."""
    local = local_path(path)
    if local is None:
        system, inner = _remote(path)
        info = system.get_file_info(inner)
        return int(info.size) if info.is_file else None
    return os.path.getsize(local) if os.path.isfile(local) else None


def identity_of(path: str) -> tuple[int, ...] | None:
    """Changes when a local file is written again, even with the same content; None if it is missing or not local."""
    local = local_path(path)
    try:
        found = os.stat(local) if local is not None else None
    except FileNotFoundError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)


def is_folder(path: str) -> bool:
    local = local_path(path)
    if local is None:
        from pyarrow import fs

        system, inner = _remote(path)
        return bool(system.get_file_info(inner).type == fs.FileType.Directory)
    return os.path.isdir(local)


@dataclass(frozen=True)
class Entry:
    name: str
    folder: bool


def entries_of(path: str) -> list[Entry]:
    """The entries of a folder, by name; none if there is no such folder."""
    local = local_path(path)
    if local is None:
        from pyarrow import fs

        system, inner = _remote(path)
        found = system.get_file_info(fs.FileSelector(inner, allow_not_found=True))
        return sorted((Entry(i.base_name, i.type == fs.FileType.Directory) for i in found), key=lambda e: e.name)
    try:
        with os.scandir(local) as scan:
            return sorted((Entry(e.name, e.is_dir(follow_symlinks=False)) for e in scan), key=lambda e: e.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


#: The rights of a folder that only its user may enter.
PRIVATE = 0o700


def make_folder(path: str, mode: int | None = None) -> None:
    """Make a folder and those above it; on local disks their names are durable afterwards.

    :param mode: the rights of each folder that is made on a local disk, whatever the umask is; without one the umask
        decides
    """
    local = local_path(path)
    if local is None:
        system, inner = _remote(path)
        system.create_dir(inner, recursive=True)
        return
    missing = []
    while not os.path.isdir(local):
        missing.append(local)
        local = os.path.dirname(local) or "."
    for folder in reversed(missing):
        try:
            if mode is None:
                os.mkdir(folder)
            else:
                os.mkdir(folder, mode & PRIVATE)
                os.chmod(folder, mode)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
        sync(os.path.dirname(folder) or ".")


def delete_file(path: str) -> None:
    local = local_path(path)
    with contextlib.suppress(FileNotFoundError):
        if local is None:
            system, inner = _remote(path)
            system.delete_file(inner)
        else:
            os.unlink(local)


def delete_folder(path: str) -> None:
    local = local_path(path)
    with contextlib.suppress(FileNotFoundError):
        if local is None:
            system, inner = _remote(path)
            system.delete_dir(inner)
        else:
            shutil.rmtree(local)


# -- names of files of state: segments are named by hashes of their content, files of a canonical savepoint are
# ``<operator>/<state>/part-<number>-<hash>.parquet``

SEGMENT_NAME = r"[0-9a-f]{32}(-[0-9a-f]{1,20}){0,2}\.(run|pack|state)"
PART_NAME = r"part-\d{1,9}-[0-9a-f]{32}\.parquet"
_STATE_NAME = re.compile(f"{SEGMENT_NAME}|{PART_NAME}")


def names_state(path: str) -> bool:
    """Whether a file is called as Beadline calls files of state. Others are never read, merged or removed as such."""
    return _STATE_NAME.fullmatch(base_name(path)) is not None


def is_link(path: str) -> bool:
    local = local_path(path)
    return local is not None and os.path.islink(local)


# Folders carry the names that the program gave, made safe: any file system takes them, and no reader of Parquet
# mistakes one for a hidden folder (``_x``, ``.x``) or a partition (``a=b``).
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
