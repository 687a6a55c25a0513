"""What a snapshot names of the files that sinks have staged, found without the program: in its plain data.

A snapshot may be anybody's. Whoever follows what it names looks first whether a sink stages under such a path at all:
then no other file is read, renamed or removed, whatever the snapshot says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from beadline.connectors.files.names import Names, staged_path
from beadline.connectors.files.pieces import DamagedError, Piece, checked_content
from beadline.state.segments.files import local_path, size_of


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


# -- what a sink obeys


def strays(data: Any, names: Names, also: Iterable[str] = ()) -> Iterator[str]:
    """What the data of a sink names and the sink must not touch, each with a sentence. It may read what is staged below
    its base path, and make parts appear there: no more, and not through symbolic links.

    :param also: folders whose pieces it may read too
    """
    for file in named_files(data):
        if staged_path(file.path) is None:
            yield f"it names {file.path!r} as staged output, and no sink stages under such a name"
            continue
        bases = (names.base,) if file.is_ready else (names.base, *also)
        if not any(_is_staged_in(file.path, base) for base in bases) and not _was_published(file, names.base):
            yield _elsewhere(file.path, names)
    for committable in _committables_of(data):
        if "target" in committable and not _may_appear(committable, names):
            yield _elsewhere(committable["target"], names)


def _may_appear(committable: dict[str, Any], names: Names) -> bool:
    """Whether the part of a committable may appear, or did before."""
    target, base = committable["target"], names.base
    if not isinstance(target, str):
        return False
    if "source" in committable:
        found = staged_path(committable["source"])
        base = found.base if found is not None else base
        return names.may_appear(target, base) or _is_gone(committable["source"], names.base)
    return names.may_appear(target, base) or _was_uploaded(committable, base)


def _committables_of(data: Any) -> list[dict[str, Any]]:
    committables = data.get("committables") if isinstance(data, dict) else None
    return [each for each in committables or () if isinstance(each, dict)]


def _elsewhere(path: Any, names: Names) -> str:
    return (
        f"it names {path!r}, which is no file of the sink that writes to {names.base}. If the sink wrote to another "
        "place when the snapshot was taken, run the job with the former path, take a savepoint, which holds all data, "
        "and go on from there with the new path"
    )


def _is_staged_in(path: str, base: str) -> bool:
    """Whether a staged file lies below a base path, however that is spelt, and no link leads from there elsewhere."""
    found = staged_path(path)
    assert found is not None
    local, local_base = local_path(path), local_path(base)
    if local is None or local_base is None:
        return found.base == base
    return os.path.realpath(local) == os.path.join(os.path.realpath(local_base), found.inner)


def _was_published(file: NamedFile, base: str) -> bool:
    return file.is_ready and _is_gone(file.path, base)


def _is_gone(path: str, base: str) -> bool:
    """Whether what was made ready is there no more: it was published, and nothing is done any more. A server that the
    sink does not write to is not asked."""
    return (local_path(path) is not None or _server_of(path) == _server_of(base)) and size_of(path) is None


def _was_uploaded(committable: dict[str, Any], base: str) -> bool:
    """The same for an upload."""
    target = committable["target"]
    if "upload" not in committable or _server_of(target) != _server_of(base) or not unquote(target).isprintable():
        return False
    from beadline.connectors.files.s3 import is_open

    return not is_open(target, committable["upload"])


def _server_of(path: str) -> tuple[str, str, str]:
    """Where a URI leads, as far as that is not a bucket of the same account."""
    parts = urlsplit(path)
    return parts.scheme, parts.netloc if parts.scheme != "s3" else parts.netloc.rpartition("@")[0], parts.query
