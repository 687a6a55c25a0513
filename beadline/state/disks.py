"""A disk that is full: named with the file that found no room, and never blamed on a record."""

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
    """Whether a file found no room, in whatever words."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _FULL
    return any(words in str(error) for words in _WORDS)


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors of the system name the file when it can't be opened, and not when it can't be written."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = path
        raise
