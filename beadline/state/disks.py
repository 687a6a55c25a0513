"""Disks that fail: the error names the file that could not be written, and blames no record.

The system tells once that it could not bring a file to the disk, and may drop what it could not write: a second sync of
the same file would succeed and prove nothing. So a file that failed is never taken for durable later.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

FREE_SPACE = (
    "Free some space there: the job goes on from its last checkpoint when it restarts or is resumed (-s latest)"
)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
LOST = "The system may have dropped what it could not write"
DAMAGED = "It has been damaged since it was written"
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


def may_have_lost(error: BaseException) -> bool:
    """Whether what a file held may be gone, though it can be read and synced again. Errors of tasks come as text."""
    return any(words in str(error) for words in (LOST, DAMAGED))


def lost(error: OSError, path: str) -> OSError:
    """What to raise if a file could not be synced."""
    return OSError(error.errno, f"{error.strerror or error}. {LOST}", path)
