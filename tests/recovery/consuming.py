"""Somebody who reads the files of a job as they appear, and takes them away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.object_store import Store
from tests.recovery.jobs import PART, files_in, lines_in, text_of


class Consumer:
    """Takes files away in a thread of its own, all the time.

    :param find: the names that are there
    :param take: takes one away, and gives its content
    """

    def __init__(self, find: Callable[[], Iterable[str]], take: Callable[[str], str]) -> None:
        self._find = find
        self._take = take
        self._parts: list[tuple[int, int, str]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Consumer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.01):
            self.look()

    def look(self) -> list[str]:
        """Take all there is now; gives the lines of all that was ever taken."""
        with self._lock:
            for name in self._find():
                found = PART.fullmatch(name.rpartition("/")[2])
                assert found is not None, f"a stranger is visible: {name}"
                self._parts.append((int(found[1]), int(found[2]), self._take(name)))
            return lines_in(self._parts)


def of_folder(folder: Path) -> Consumer:
    """Moves files to another folder, renames them in place, or deletes them."""
    out, taken = folder / "out", folder / "taken"
    taken.mkdir()
    ways = ("move", "rename", "delete")
    number = 0

    def find() -> Iterable[str]:
        return [str(path.relative_to(out)) for path in files_in(out, (".",)) if not path.name.startswith("done-")]

    def take(name: str) -> str:
        nonlocal number
        number += 1
        path = out / name
        match ways[number % len(ways)]:
            case "move":
                path = path.rename(taken / f"{number}")
            case "rename":
                path = path.rename(path.with_name(f"done-{number}"))
        text = text_of(name, path.read_bytes())
        if ways[number % len(ways)] == "delete":
            path.unlink()
        return text

    return Consumer(find, take)


def of_store(store: Store, prefix: str) -> Consumer:
    """Reads objects and deletes them."""

    def find() -> Iterable[str]:
        return [key for key in store.objects(prefix) if "/." not in key]

    def take(key: str) -> str:
        text = text_of(key, store.read(key))
        store.delete(key)
        return text

    return Consumer(find, take)
