"""What a snapshot names of the files that sinks have staged, found without the program: in its plain data.

A snapshot may be anybody's. Whoever follows what it names looks first whether a sink stages under such a path at all:
then no other file is read, renamed or removed, whatever the snapshot says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from beadline.connectors.files.names import staged_path
from beadline.connectors.files.pieces import DamagedError, Piece, checked_content
from beadline.state.segments.files import size_of


class NamedFile(NamedTuple):
    """A staged file as a snapshot names it.

    :ivar is_ready: whether publishing uses it up: if it is gone, it was published
    :ivar is_spare: whether it is only needed if a transaction is aborted that holds its rows
    """

    path: str
    size: int
    checksum: str | None
    is_ready: bool = False
    is_spare: bool = False

    def problem(self) -> str:
        """What is wrong with it, empty if nothing is. All of it is read."""
        if staged_path(self.path) is None:
            return "no sink stages output under such a name. Is this snapshot one that Beadline wrote?"
        try:
            found = size_of(self.path)
            if found is None:
                return "" if self.is_ready else "the file is missing"
            if found != self.size:
                return f"the file has {found} bytes and should have {self.size}"
            for _ in checked_content(self.path, self.size, self.checksum):
                pass
        except FileNotFoundError:
            return "" if self.is_ready else "the file is missing"
        except DamagedError as error:
            return error.why
        except OSError as error:
            return f"it can't be read: {error}"
        return ""


def named_files(data: Any) -> Iterator[NamedFile]:
    """All that the data of one sink names: its pieces, and what was made ready. None for sinks that stage otherwise.

    :raises ValueError: the data is not what a sink writes
    """
    try:
        yield from _named_files(data)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"what a sink has staged is not well formed: {type(error).__name__} {error}") from error


def _named_files(data: Any) -> Iterator[NamedFile]:
    staged, committables = (data.get("staged"), data.get("committables")) if isinstance(data, dict) else (None, None)
    if isinstance(staged, dict) and "parts" in staged:
        parts = [*staged["parts"], *(part for _, _, waiting in staged.get("waiting", ()) for part in waiting)]
        for _, _, pieces in parts:
            yield from _files_of(pieces)
    for committable in committables or ():
        if isinstance(committable, dict):
            yield from _files_of(committable.get("pieces", ()), is_spare="handle" in committable)
            if "source" in committable:
                size, checksum = committable["size"], committable.get("checksum")
                yield _checked(NamedFile(committable["source"], size, checksum, is_ready=True))


def _files_of(pieces: list[Any], is_spare: bool = False) -> Iterator[NamedFile]:
    for piece in (Piece(*piece) for piece in pieces):
        if piece.data is None:
            if piece.path is None:
                raise TypeError("a piece has neither rows nor a file")
            yield _checked(NamedFile(piece.path, piece.size, piece.checksum, is_spare=is_spare))


def _checked(file: NamedFile) -> NamedFile:
    if not (isinstance(file.path, str) and isinstance(file.size, int) and isinstance(file.checksum, str | None)):
        raise TypeError(f"{file.path!r} is named with size {file.size!r} and checksum {file.checksum!r}")
    return file
