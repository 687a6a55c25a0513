"""Who needs which shared file.

Completed checkpoints share segments. A file may be deleted when its last holder releases it, and only if it is the
job's own: files of savepoints and of other jobs' folders are counted like the rest and never given out for deletion,
unless they were claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from beadline.state.segments.files import local_path


class SharedFiles:
    """Counts references to files; those in ``folders`` are this job's own. A holder is a checkpoint's number. Register
    a checkpoint when its snapshot is taken, before it is written: until it completes or fails its files are needed too.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = tuple(_folder(folder) for folder in folders)
        self._holders: dict[int, frozenset[str]] = {}
        self._counts: Counter[str] = Counter()
        self._claimed: set[str] = set()

    def claim(self, files: Iterable[str]) -> None:
        """Own these files too, wherever they are: those of a snapshot that was restored in claim mode."""
        self._claimed.update(path for path in files if ".." not in path.split("/"))

    def register(self, holder: int, files: Iterable[str]) -> frozenset[str]:
        """A holder needs exactly these files from now on. Gives the files that nobody needs any more."""
        before, after = self._holders.get(holder, frozenset()), frozenset(files)
        self._holders[holder] = after
        self._counts.update(after - before)
        return self._let_go(before - after)

    def release(self, holder: int) -> frozenset[str]:
        """A holder needs nothing any more. Gives the files that nobody else needs; an unknown holder had none."""
        return self._let_go(self._holders.pop(holder, frozenset()))

    def _let_go(self, files: Iterable[str]) -> frozenset[str]:
        freed = set()
        for path in files:
            self._counts[path] -= 1
            if not self._counts[path]:
                del self._counts[path]
                freed.add(path)
        return frozenset(path for path in freed if self.owns(path))

    def owns(self, path: str) -> bool:
        """Whether this job may delete a file."""
        if path in self._claimed:
            return True
        place = local_path(path) or path
        return ".." not in place.split("/") and any(place.startswith(folder) for folder in self._folders)

    def files(self) -> frozenset[str]:
        """All files that somebody needs."""
        return frozenset(self._counts)


def _folder(folder: str) -> str:
    return (local_path(folder) or folder.partition("?")[0]).rstrip("/") + "/"
