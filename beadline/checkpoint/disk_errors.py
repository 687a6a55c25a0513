"""Errors of a file system in words that say what to do."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.settings import DIRECTORY


@contextlib.contextmanager
def explained(what: str, option: str = DIRECTORY) -> Iterator[None]:
    """Raise what the file system says as an error of Beadline.

    :param what: what can't be done
    :param option: the one that chooses the directory
    """
    try:
        yield
    except OSError as error:
        advice = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            advice = f". Free some space there, or choose another directory with {option}"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            advice = ". The directory must be one that this process can make and write"
        raise SnapshotError(f"{what}: {error}{advice}") from error
