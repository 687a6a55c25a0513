"""Parts that appear by a rename: on mounted file systems and HDFS.

A part is made ready as one file in the sink's staging folder, under a name that only its attempt knows. A rename makes
it appear and takes the ready file away, in one act of the file system.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from beadline.connectors.files.names import READY, STAGING, Names, PartName
from beadline.connectors.files.pieces import Checked
from beadline.connectors.files.place import Place
from beadline.state.disks import naming
from beadline.state.segments.files import (
    base_name,
    delete_file,
    delete_folder,
    entries_of,
    is_folder,
    join,
    local_path,
    make_folder,
    parent,
    rename,
    size_of,
    sync,
    write_remote,
)

_TRIES = 5


class RenamedFiles(Place):
    """A committable is ``{"target": path, "source": path, "size": bytes, "checksum": …}``."""

    def prepare(self) -> None:
        make_folder(self.names.staging)

    def make_ready(self, part: dict[str, Any]) -> dict[str, Any]:
        source = join(self.names.staging, READY + uuid.uuid4().hex)
        content = Checked(self.content(part))
        _write(source, content)
        return {"target": part["target"], "source": source, "size": content.size, "checksum": content.checksum}

    def key_of(self, committable: dict[str, Any]) -> Any:
        return committable.get("source")

    def ready(self) -> Iterator[tuple[Any, Names]]:
        for path, names in self.staged():
            if base_name(path).lstrip(".").startswith(READY):
                yield path, names

    def give_up(self, key: Any) -> None:
        delete_file(key)

    def parts(self) -> Iterator[tuple[str, Names, PartName]]:
        return self._parts_in(self.names.base)

    def _parts_in(self, folder: str) -> Iterator[tuple[str, Names, PartName]]:
        for entry in entries_of(folder):
            path = join(folder, entry.name if local_path(folder) is not None else quote(entry.name))
            if entry.folder:
                if not entry.name.startswith(STAGING):
                    yield from self._parts_in(path)
            elif (owner := self.owner_of(entry.name)) is not None:
                yield path, *owner

    def staged(self) -> Iterator[tuple[str, Names]]:
        for names in self._staging():
            for entry in entries_of(names.staging):
                yield join(names.staging, entry.name), names

    def _staging(self) -> Iterator[Names]:
        """Those that have a staging folder."""
        for folder, drivers in self._by_folder.items():
            yield from [drivers[entry.name] for entry in entries_of(folder) if entry.name in drivers]

    def remove(self, path: str) -> None:
        delete_file(path)

    def clear(self) -> None:
        with contextlib.suppress(OSError):
            kept = {path for path in self.promised() if _size(path) is not None}
            if kept:
                kept.update(self.promises())
            for folder in [names.staging for names in self._staging()]:
                if any(parent(path) == folder for path in kept):
                    for path in (join(folder, entry.name) for entry in entries_of(folder)):
                        if path not in kept:
                            delete_file(path)
                else:
                    delete_folder(folder)
            for folder in self._by_folder:
                if not entries_of(folder) and is_folder(folder):
                    delete_folder(folder)


def publish_file(committable: dict[str, Any]) -> None:
    """Make a part appear.

    1. the very file is there already: the part has appeared, and of what was made ready only the name is left, as some
       file systems do if the machine crashes in a rename. Anything else at that place is not ours to replace
    2. rename, if it is as it was written. Of two attempts one wins, and the other finds nothing to rename
    3. nothing to rename: the part has appeared before, and a consumer has taken it away since
    4. make both names durable, also after a rename whose attempt died before it could
    """
    source, target = committable["source"], committable["target"]
    problem: OSError | None = None
    for _ in range(_TRIES):
        there = _size(target)
        if there is not None and _size(source) is not None and not _is_same(source, target):
            raise FileExistsError(
                f"{target} can't be published with {committable['size']} bytes: another file of {there} bytes, which "
                "this sink did not write, is in its place. Move it away, and the job will go on"
            )
        if there is not None:
            delete_file(source)
            break
        found = _size(source)
        if found not in (None, committable["size"]):
            raise OSError(
                f"{target} can't be published: {source} has {found} bytes, and was written with {committable['size']}"
            )
        _refuse_detour(source, target)
        try:
            rename(source, target)
            break
        except OSError as error:
            if _size(source) is None:
                _check_mounted(source)
                break
            problem = error
            make_folder(parent(target))  # it was not there yet, or a consumer has just removed it
    else:
        assert problem is not None
        raise problem
    for folder in (parent(target), parent(source)):
        with contextlib.suppress(FileNotFoundError):
            sync(folder)


def _size(path: str) -> int | None:
    """None only if there is no such file; if that is unknown, it is an error."""
    local = local_path(path)
    if local is None:
        return size_of(path)
    try:
        return os.stat(local).st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_same(source: str, target: str) -> bool:
    """Whether both are names of one file, or one of them has gone just now."""
    ours, there = local_path(source), local_path(target)
    if ours is None or there is None:
        return _size(source) is None
    try:
        return os.path.samefile(ours, there)
    except FileNotFoundError:
        return True


def _refuse_detour(source: str, target: str) -> None:
    """A symbolic link below the base path must not lead out of it."""
    folder, base = local_path(parent(target)), local_path(_base_of(source))
    if folder is None or base is None:
        return
    folder, base = os.path.realpath(folder), os.path.realpath(base)
    if folder != base and not folder.startswith(base.rstrip("/") + "/"):
        raise OSError(
            f"{target} can't be published: a symbolic link leads from {_base_of(source)} to {folder}. Put a folder in "
            "its place, and the job will go on"
        )


def _base_of(source: str) -> str:
    """The base path of the sink that made it ready."""
    return parent(parent(parent(source)))


def _check_mounted(source: str) -> None:
    """A file system that can't be reached is no proof that a part has appeared."""
    base = _base_of(source)
    if not is_folder(base):
        raise FileNotFoundError(
            f"{base} is not there, so nobody can tell whether {base_name(source)} was published. Is the file system "
            "mounted on this machine? If you removed the folder, make it again"
        )


def _write(path: str, content: Iterable[bytes]) -> None:
    """Write a file and wait until it is durable, with its name."""
    local = local_path(path)
    if local is None:
        write_remote(path, content)
        return
    try:
        with naming(local), open(local, "xb") as stream:
            stream.writelines(content)
            stream.flush()
            os.fsync(stream.fileno())
        sync(parent(local))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(local)
        raise
