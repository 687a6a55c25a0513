"""Removing what Beadline wrote, and nothing else: everything else in its folders has other names."""

from __future__ import annotations

import errno
import os
import re

from beadline.checkpoint import metadata
from beadline.state.files import delete_file, delete_folder, entries_of, join, local_path

STAGED = re.compile(r"\.(chk-\d{1,18}|savepoint-[0-9a-zA-Z]{1,6}-[0-9a-f]{12})\.[0-9a-f]{8}")
# Runs are named by hashes of their content; what is being written has a dot before and a random part behind.
_RUN = r"[0-9a-f]{32}(-[0-9a-f]{1,20}){0,2}\.(run|pack|state)"
RUN_FILE = re.compile(rf"{_RUN}|\.{_RUN}\.[0-9a-f]{{8}}")
TEMPORARY = re.compile(r"\.(fence-\d{1,9}|_metadata)\.[0-9a-f]{8}")
EPOCH = re.compile(r"\d{1,9}")


def remove_known(folder: str) -> None:
    """Remove a checkpoint's or savepoint's own files, ``_metadata`` first, and the folder if nothing is left in it."""
    delete_file(join(folder, metadata.METADATA))
    for entry in entries_of(folder):
        if not entry.folder and (RUN_FILE.fullmatch(entry.name) or TEMPORARY.fullmatch(entry.name)):
            delete_file(join(folder, entry.name))
    remove_if_empty(folder)


def remove_if_empty(folder: str) -> bool:
    """Remove a folder; False if there is something in it."""
    if entries_of(folder):
        return False
    local = local_path(folder)
    if local is None:
        delete_folder(folder)
        return True
    try:
        os.rmdir(local)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True
