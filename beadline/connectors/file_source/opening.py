"""Files of this machine and of others, read alike."""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO, cast

from beadline.state.segments.files import local_path, open_remote

BLOCK = 1 << 20


def opened(path: str) -> BinaryIO:
    """A file to read from, from anywhere in it."""
    local = local_path(path)
    if local is not None:
        return open(local, "rb", buffering=BLOCK)
    return cast(BinaryIO, io.BufferedReader(_Remote(open_remote(path)), BLOCK))


def size_now(stream: BinaryIO) -> int:
    """How many bytes the file has."""
    remote = getattr(stream, "raw", None)
    if isinstance(remote, _Remote):
        return int(remote.file.size())
    return os.fstat(stream.fileno()).st_size


def read_at(stream: BinaryIO, size: int, offset: int) -> bytes:
    """Some bytes of a file, without going there."""
    remote = getattr(stream, "raw", None)
    if isinstance(remote, _Remote):
        return bytes(remote.file.read_at(size, offset))
    return os.pread(stream.fileno(), size, offset)


class _Remote(io.RawIOBase):
    """A file of ``pyarrow.fs`` as one of Python's."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self.file.seek(offset, whence))

    def tell(self) -> int:
        return int(self.file.tell())

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        super().close()
