"""Places for files: a local disk, a file system of pyarrow that renames, and a server that speaks S3."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from beadline.connectors.files import place as places
from beadline.state.segments.files import (
    delete_file,
    entries_of,
    join,
    local_path,
    make_folder,
    parent,
    read_file,
    write_file,
)
from tests.object_store import Store, object_store

_NUMBERS = itertools.count()


class Shelf:
    """A folder somewhere, as a consumer of the files sees it, and what is hidden from it.

    :ivar uploads: gives the keys of uploads that are not completed, on S3
    """

    def __init__(self, base: str, uploads: Callable[[], list[str]] = list) -> None:
        self.base = base
        self.uploads = uploads

    def _all(self, folder: str) -> Iterator[tuple[str, ...]]:
        for entry in entries_of(folder):
            if entry.folder:
                name = entry.name if local_path(folder) is not None else quote(entry.name)
                yield from ((entry.name, *rest) for rest in self._all(join(folder, name)))
            else:
                yield (entry.name,)

    def visible(self) -> dict[str, str]:
        """The content of files by name."""
        return {name: read_file(self._path(name)).decode() for name in self.visible_names()}

    def visible_names(self) -> list[str]:
        return ["/".join(n) for n in self._all(self.base) if not any(name.startswith(".") for name in n)]

    def _path(self, name: str) -> str:
        return join(self.base, *(name if local_path(self.base) is not None else quote(name)).split("/"))

    def staged(self) -> list[str]:
        """The names of staged pieces."""
        return [n[-1] for n in self._all(self.base) if n[0].startswith(".staging") and not n[-1].startswith("ready")]

    def ready(self) -> list[str]:
        """What was made ready and has not appeared."""
        names = [n[-1] for n in self._all(self.base) if n[0].startswith(".staging") and n[-1].startswith("ready")]
        return names + self.uploads()

    def take(self) -> dict[str, str]:
        """What a consumer does: it moves everything away."""
        taken = self.visible()
        for name in taken:
            delete_file(self._path(name))
        return taken

    def put(self, name: str, text: str) -> None:
        path = self._path(name)
        make_folder(parent(path))
        write_file(path, text.encode())


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as made:
        yield made


@pytest.fixture(params=["local", "renaming", "s3"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    if request.param == "local":
        return Shelf(str(tmp_path / "my out"))
    if request.param == "renaming":
        monkeypatch.setattr(places, "_RENAMING", {"mock"})
        return Shelf(f"mock:///{next(_NUMBERS)}/my%20out")
    store: Store = request.getfixturevalue("store")
    prefix = f"{next(_NUMBERS)}/my out"
    return Shelf(store.uri(prefix.replace(" ", "%20")), lambda: store.uploads(prefix))


@pytest.fixture
def disk(tmp_path: Path) -> Shelf:
    """Where only a local disk will do."""
    return Shelf(str(tmp_path / "out"))
