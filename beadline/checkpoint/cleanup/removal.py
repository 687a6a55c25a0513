"""Removing what Beadline wrote, and nothing else: it is known by its names."""

from __future__ import annotations

import errno
import os
import re

from beadline.checkpoint.contents import metadata
from beadline.state.segments.files import base_name, delete_file, delete_folder, entries_of, join, local_path, parent

STAGED = re.compile(r"\.(chk-\d{1,18}|savepoint-[0-9a-zA-Z]{1,6}-[0-9a-f]{12})\.[0-9a-f]{8}")
# Segments are named by hashes of their content; what is being written has a dot before and a random part after.
_SEGMENT = r"[0-9a-f]{32}(-[0-9a-f]{1,20}){0,2}\.(run|pack|state)"
_DRAFT = r"\.draft\.[0-9a-f]{12}"
SEGMENT_FILE = re.compile(rf"{_SEGMENT}|\.{_SEGMENT}\.[0-9a-f]{{8}}|{_DRAFT}")
# The same for the Parquet files of a canonical savepoint.
_PART = r"part-\d{1,9}-[0-9a-f]{32}\.parquet"
PART_FILE = re.compile(rf"{_PART}|\.{_PART}\.[0-9a-f]{{8}}|{_DRAFT}")
TEMPORARY = re.compile(r"\.(lease-\d{1,9}(-[0-9a-f]{8})?|(fence|beat)-\d{1,9}|ended|history|_metadata)\.[0-9a-f]{8}")
EPOCH = re.compile(r"\d{1,9}")


def is_state_file(path: str) -> bool:
    """Whether a file has a name that Beadline gives to files of state."""
    name = base_name(path)
    return bool(SEGMENT_FILE.fullmatch(name) or PART_FILE.fullmatch(name))


def remove_known(folder: str) -> bool:
    """Remove a checkpoint's or savepoint's own files, ``_metadata`` first, and the folder if nothing is left in it.

    False if there is something else in it.
    """
    delete_file(join(folder, metadata.METADATA))
    for entry in entries_of(folder):
        path = join(folder, entry.name)
        if entry.folder:
            _remove_operator(path)
        elif SEGMENT_FILE.fullmatch(entry.name) or TEMPORARY.fullmatch(entry.name):
            delete_file(path)
    return remove_if_empty(folder)


def _remove_operator(folder: str) -> None:
    """The Parquet files below ``<operator>/<state>/``."""
    touched = False
    for state in entries_of(folder):
        if not state.folder:
            continue
        path = join(folder, state.name)
        parts = [entry.name for entry in entries_of(path) if not entry.folder and PART_FILE.fullmatch(entry.name)]
        for name in parts:
            delete_file(join(path, name))
        if parts:
            touched = True
            remove_if_empty(path)
    if touched:
        remove_if_empty(folder)


def remove_metadata(folder: str) -> None:
    """Nobody can go on from a claimed snapshot any more. Its files stay as long as somebody needs them."""
    delete_file(join(folder, metadata.METADATA))
    remove_if_empty(folder)


def remove_claimed(path: str) -> None:
    """Remove a file of a claimed snapshot, and the folders of the snapshot that are empty then.

    ``shared`` folders stay: they belong to a job. If a crash has left the ``_metadata`` of a claimed savepoint, that
    goes first.
    """
    if _is_shared(parent(path)):
        delete_file(path)
        return
    folders = [parent(path)]
    if PART_FILE.fullmatch(base_name(path)):
        folders += [parent(folders[0]), parent(parent(folders[0]))]
    delete_file(join(folders[-1], metadata.METADATA))
    delete_file(path)
    for folder in folders:
        if not remove_if_empty(folder):
            return


def _is_shared(folder: str) -> bool:
    name = base_name(folder)
    if EPOCH.fullmatch(name):
        name = base_name(parent(folder))
    return name == metadata.SHARED


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
