"""Which paths a request may name.

A request names a path in two cases: where a savepoint is to go, and which savepoint is to be disposed of.

- **Who shows the token** may name any directory, as with Flink: the token is in a file that only the account can read
  which the driver runs under, so whoever has it could write there anyway.
- **Without a token** (``beadline.rest.token: none``) anybody on this machine may ask, also people who could not write
  there themselves. So the path must lie in a directory that the job's owner has configured:
  ``execution.checkpointing.savepoint-dir``, ``execution.checkpointing.dir``, or one of
  ``beadline.rest.savepoint-directories``. Symbolic links are followed before that is decided.

In both cases a path is absolute (the driver's working directory is nobody's business), has no ``..``, no control
characters, and is not a file. Nothing is ever read from a path and shown: a savepoint is written under a name of its
own, and only what Beadline wrote as a savepoint is disposed of.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from beadline.state.segments.files import local_path

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST = 4096


class PathRefused(Exception):
    """A path that a request must not name; the message says why and what may be named."""


def checked_path(path: str, allowed: Iterable[str] | None) -> str:
    """The path, if it may be named.

    :param allowed: the directories that it must lie in; None for any
    """
    if not path or len(path) > _LONGEST or _CONTROL.search(path):
        raise PathRefused("a directory has from 1 to 4096 characters, and no control characters")
    local = local_path(path)
    if ".." in re.split(r"[/\\]", local if local is not None else path):
        raise PathRefused(f"the directory {path!r} has '..' in it: name it as it is")
    if local is not None and not os.path.isabs(local):
        raise PathRefused(f"the directory {path!r} must be absolute, or a URI such as file:///savepoints")
    if allowed is not None and not any(_lies_in(path, directory) for directory in allowed):
        names = ", ".join(allowed) or "none is configured"
        raise PathRefused(
            "this server takes no token, so directories must lie in those that are configured with "
            "execution.checkpointing.savepoint-dir, execution.checkpointing.dir or "
            f"beadline.rest.savepoint-directories ({names}); {path!r} does not"
        )
    if local is not None and os.path.isfile(local):
        raise PathRefused(f"{path!r} is a file, not a directory")
    return path


def _lies_in(path: str, directory: str) -> bool:
    here, there = local_path(path), local_path(directory)
    if (here is None) != (there is None):
        return False
    if here is None or there is None:
        base = directory.partition("?")[0].rstrip("/")
        return path.partition("?")[0].rstrip("/") == base or path.startswith(base + "/")
    inside, base = os.path.realpath(here), os.path.realpath(there)
    return inside == base or inside.startswith(base.rstrip("/") + "/")
