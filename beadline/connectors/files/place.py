"""Where the parts of a file sink appear.

A part must appear whole, at one moment, and only once, even if a consumer has taken it away since. So a place makes it
ready first, and making it appear uses up what was made ready: if that is gone, the part has appeared.

So what a savepoint names must not go in any other way. A driver knows what its own savepoints name. For those that come
after it there is a list in the staging folder, a *promise*, which is there before the savepoint is: they may go on from
an older checkpoint, and somebody may start from the savepoint later.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from beadline.connectors.files.names import PROMISED, READY, Names, PartName
from beadline.connectors.files.pieces import Piece, content_of
from beadline.errors import ConfigurationError, UnsupportedFeatureError
from beadline.state.segments.files import base_name, join, local_path, read_file, sync, write_file

#: Makes a file of what was staged. None for what needs no more than to be written one piece after the other.
Assemble = Callable[[Iterator[bytes]], Iterator[bytes]]

# pyarrow.fs moves a file there in one act of the server.
_RENAMING = frozenset({"hdfs", "viewfs"})


class Place(ABC):
    """The same verbs for each kind of place. A part is ``{"target": path, "pieces": […]}``.

    :ivar names: of this driver; of another place than this driver's, of the newest driver that wrote there
    :ivar known: the names of all drivers of the job that wrote there
    """

    def __init__(self, names: Names, assemble: Assemble | None = None, former: Iterable[Names] = ()) -> None:
        self.names = names
        self.known = (names, *former)
        self._assemble = assemble
        self._by_stem: dict[tuple[str, str], dict[str, Names]] = {}
        self._by_folder: dict[str, dict[str, Names]] = {}
        for each in self.known:
            self._by_stem.setdefault((each.stem, each.suffix), {}).setdefault(each.driver, each)
            self._by_folder.setdefault(each.all_staged, {}).setdefault(each.driver or "0", each)

    def owner_of(self, name: str) -> tuple[Names, PartName] | None:
        """Which driver wrote the part that has a name; None if none that is known."""
        for drivers in self._by_stem.values():
            part = next(iter(drivers.values())).part(name)
            if part is not None and part.driver in drivers:
                return drivers[part.driver], part
        return None

    def content(self, part: dict[str, Any]) -> Iterator[bytes]:
        """The file that the pieces of a part make."""
        staged = content_of(Piece(*piece) for piece in part["pieces"])
        return staged if self._assemble is None else self._assemble(staged)

    @abstractmethod
    def prepare(self) -> None:
        """Called on the driver before the first step."""

    @abstractmethod
    def make_ready(self, part: dict[str, Any]) -> dict[str, Any]:
        """Put the pieces of a part together, durable and hidden, as something that no other attempt makes. Gives the
        committable. Runs in tasks."""

    @abstractmethod
    def key_of(self, committable: dict[str, Any]) -> Any:
        """What names the thing that was made ready, as :meth:`ready` names it."""

    @abstractmethod
    def ready(self) -> Iterator[tuple[Any, Names]]:
        """What drivers of this sink have made ready and has not appeared, with their names."""

    @abstractmethod
    def give_up(self, key: Any) -> None:
        """Remove what was made ready; nobody can make it appear any more."""

    @abstractmethod
    def parts(self) -> Iterator[tuple[str, Names, PartName]]:
        """The parts of this sink that have appeared and are still there, and whose they are."""

    @abstractmethod
    def staged(self) -> Iterator[tuple[str, Names]]:
        """The files that drivers up to this one have in the staging folders, with their names."""

    def pieces(self) -> set[str]:
        """The files of pieces that drivers up to this one have staged."""
        return {path for path, _ in self.staged() if not base_name(path).lstrip(".").startswith((READY, PROMISED))}

    def promise(self, keys: list[Any]) -> str:
        """A savepoint names these: no later driver gives them up. Gives the file that says so."""
        path = join(self.names.staging, PROMISED + uuid.uuid4().hex)
        write_file(path, json.dumps(keys).encode(), durable=True)
        sync(self.names.staging)
        return path

    def promises(self) -> dict[str, set[Any]]:
        """The files with what savepoints of earlier drivers name, and what that is. Some of it may have appeared."""
        own, found = self.names, {}
        for path in [path for path, names in self.staged() if names != own and base_name(path).startswith(PROMISED)]:
            with contextlib.suppress(FileNotFoundError):  # its driver has just kept it
                keys = json.loads(read_file(path))
                found[path] = {tuple(key) if isinstance(key, list) else key for key in keys}
        return found

    def promised(self) -> set[Any]:
        """All that they name."""
        return set().union(*self.promises().values())

    def forget_kept_promises(self) -> None:
        """Remove the lists of earlier drivers of which nothing is left to appear."""
        promises = self.promises()
        ready = {key for key, _ in self.ready()} if promises else set()
        for path, keys in promises.items():
            if ready.isdisjoint(keys):
                self.remove(path)

    @abstractmethod
    def remove(self, path: str) -> None:
        """Delete a part or the file of a piece; it may be gone already."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all that drivers up to this one have staged or made ready, unless it was promised."""


def place_of(names: Names, assemble: Assemble | None = None, former: Iterable[Names] = ()) -> Place:
    if local_path(names.base) is None and urlsplit(names.base).scheme == "s3":
        from beadline.connectors.files.s3 import Uploads

        return Uploads(names, assemble, former)
    from beadline.connectors.files.renaming import RenamedFiles

    return RenamedFiles(names, assemble, former)


def publish(committable: dict[str, Any]) -> None:
    """Make a part appear. If that was done before, nothing happens, whatever has become of the part since."""
    if "upload" in committable:
        from beadline.connectors.files.s3 import publish_upload

        publish_upload(committable)
    else:
        from beadline.connectors.files.renaming import publish_file

        publish_file(committable)


def check_base(path: str) -> None:
    """Refuse a path where no place could keep its promise."""
    if path.startswith("file:"):
        host = urlsplit(path).netloc
        if host not in ("", "localhost"):
            raise ConfigurationError(
                f"{path} names the host '{host}', but files can only be written on this host: write file:///{host}… "
                "for a path from the root, or a path without file: for a relative one"
            )
    elif local_path(path) is None:
        scheme = urlsplit(path).scheme
        if scheme == "s3":
            from beadline.connectors.files.s3 import require_boto3

            require_boto3()
        elif scheme not in _RENAMING:
            raise UnsupportedFeatureError(
                f"FileSink can't write to {path}: Beadline knows no atomic rename and no delayed upload for "
                f"{scheme}://, so files could appear twice or half written. Use a mounted file system, s3:// or hdfs://"
            )
