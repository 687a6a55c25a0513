"""A full disk: the error names the file that could not be written, and blames no record."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

FREE_SPACE = (
    "Free some space there: the job goes on from its last checkpoint when it restarts or is resumed (-s latest)"
)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# RocksDB and the JVM say it in words.
_WORDS = ("No space left on device", "Disk quota exceeded")


def is_full(error: BaseException) -> bool:
    """Whether an error means that a disk is full, in whatever words."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _FULL
    return any(words in str(error) for words in _WORDS)


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors of the system name a file that can't be opened, but not one that can't be written."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = path
        raise
