"""How a view of a running job travels: as the metadata of a checkpoint that nobody has written."""

from __future__ import annotations

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot

# Where the metadata would lie: paths in it are relative to this. No such folder exists.
_FOLDER = "/beadline-view"


def to_text(snapshot: Snapshot) -> str:
    return metadata.encode(snapshot, _FOLDER).decode()


def from_text(text: str) -> Snapshot:
    return metadata.decode(text.encode(), f"{_FOLDER}/{metadata.METADATA}")
