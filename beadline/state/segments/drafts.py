"""Files that are written piece by piece and named by their content at the end."""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from typing import IO

import xxhash

from beadline.state.disks import naming
from beadline.state.segments import files
from beadline.state.segments.version import SegmentRef

_COPY_BYTES = 4 << 20


class Draft:
    """A file in the making. Nobody sees it before :meth:`publish`; without that, it is removed.

    If the folder is not on a local disk, it is first written to a local temporary file: object stores can't rename.

    :ivar size: how many bytes were written
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._local = files.local_path(folder)
        self._path: str | None = None
        self._file: IO[bytes]
        if self._local is not None:
            self._path = f"{self._local}/.draft.{uuid.uuid4().hex[:12]}"
            self._file = open(self._path, "wb")  # noqa: SIM115
        else:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._short, self._long = xxhash.xxh3_64(), xxhash.xxh3_128()
        self.size = 0

    def write(self, data: bytes) -> None:
        with naming(self._path or tempfile.gettempdir()):
            self._file.write(data)
        self._short.update(data)
        self._long.update(data)
        self.size += len(data)

    @property
    def checksum(self) -> str:
        """As :func:`beadline.state.segments.version.checksum_of` gives it."""
        return self._short.hexdigest()

    @property
    def digest(self) -> str:
        return self._long.hexdigest()

    def publish(self, name: str, durable: bool = False) -> str:
        """Give the file its name in the folder, and give its path. A file of the same content may be there already.

        :param durable: wait until the disk has it. The name is durable once its folder is synced too.
        """
        path = files.join(self._folder, name)
        if self._path is None:
            self._upload(path)
            return path
        with naming(self._path):
            self._file.flush()
            if durable:
                os.fsync(self._file.fileno())
            self._file.close()
        local = f"{self._local}/{name}"
        os.replace(self._path, local)
        self._path = None
        return local

    def _upload(self, path: str) -> None:
        self._file.seek(0)
        files.write_remote(path, iter(lambda: self._file.read(_COPY_BYTES), b""))
        self._file.close()

    def store(self, name: str, version: str, entries: int) -> SegmentRef:
        """Publish a file that holds one segment, and give the reference with its checksum."""
        return SegmentRef(version, entries, self.size, path=self.publish(name), checksum=self.checksum)

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):  # the rest of what a full disk did not take
            self._file.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
