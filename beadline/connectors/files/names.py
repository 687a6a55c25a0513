"""How the files of one sink are called.

Names and staging folders tell the lineage and the driver that they belong to, both at random: other jobs may write to
the same folder, even jobs of the same id. Parts are counted by subtask, and a driver gives no number twice. It touches
only what it has made itself, or what earlier drivers have that it knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote

from beadline.errors import ConfigurationError, TypeMismatchError
from beadline.state.segments.files import join, local_path

STAGING = ".staging-"
COMPACTED = "compacted-"
READY, PROMISED = "ready-", "promised-"

# What names look like, whichever sink and driver they are of.
_STAGED = re.compile(rf"(.*)/({re.escape(STAGING)}[0-9a-f-]+/[0-9a-z]{{1,40}}/({READY})?[0-9a-f]{{32}})")
_PART = re.compile(r".*-[0-9a-f]{8}(_[0-9a-z]{1,40})?-\d{1,18}-\d{1,18}[^/]*")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# What file systems take as one name.
_LONGEST = 255


class PartName(NamedTuple):
    """What the name of a part tells."""

    driver: str
    subtask: int
    counter: int


class StagedPath(NamedTuple):
    """What the path of a staged file tells.

    :ivar base: the folder that holds the staging folder
    :ivar inner: the path below it
    :ivar is_ready: whether it is a part that was made ready, and not a piece
    """

    base: str
    inner: str
    is_ready: bool


def staged_path(path: str) -> StagedPath | None:
    """What a path tells, None if it is not one that a sink makes for what it stages."""
    place, query = _without_query(path)
    found = _STAGED.fullmatch(place)
    if found is None or _CONTROL.search(path) or not {".", ".."}.isdisjoint(found[1].split("/")):
        return None
    return StagedPath(found[1] + query, found[2], found[3] is not None)


def below(path: str, base: str) -> str | None:
    """How a path goes on below a base path, None if it is elsewhere."""
    (place, query), (start, base_query) = _without_query(path), _without_query(base)
    start = start.rstrip("/") + "/"
    if not place.startswith(start) or query != base_query:
        return None
    inner = place.removeprefix(start)
    return inner if local_path(path) is not None else unquote(inner)


def _without_query(path: str) -> tuple[str, str]:
    place, mark, query = path.partition("?") if local_path(path) is None else (path, "", "")
    return place, mark + query


@dataclass(frozen=True)
class Names:
    """``base/bucket/prefix-run[_driver]-subtask-counter suffix``, and what is hidden in ``base/.staging-run/driver``.

    :ivar base: an absolute local path, or a URI
    :ivar run: names the sink of this job, the same whenever the job is resumed
    :ivar name: of the driver; a driver without one is called by its epoch
    :ivar is_own: whether it is a driver of the lineage that goes on now
    """

    base: str
    prefix: str
    suffix: str
    run: str
    epoch: int
    name: str = ""
    is_own: bool = True

    @property
    def driver(self) -> str:
        """What tells the driver's names from those of others."""
        return self.name or (str(self.epoch) if self.epoch else "")

    @property
    def stem(self) -> str:
        """How the names of this job's parts begin."""
        return f"{self.prefix}-{self.run[:8]}"

    @property
    def all_staged(self) -> str:
        """The folder of what drivers of the lineage staged."""
        return join(self.base, STAGING + self.run)

    @property
    def staging(self) -> str:
        return join(self.all_staged, self.driver or "0")

    def target(self, bucket: str, subtask: int, counter: int, compacted: bool = False) -> str:
        """Where a part appears."""
        driver = f"_{self.driver}" if self.driver else ""
        names = [name for name in bucket.split("/") if name]
        prefix = COMPACTED if compacted else ""
        names.append(f"{prefix}{self.stem}{driver}-{subtask}-{counter}{self.suffix}")
        return join(self.base, *(names if local_path(self.base) is not None else map(quote, names)))

    def checked(self, bucket: str) -> str:
        """The bucket, if its parts stay below the base path and out of the staging folders: it is mostly made of what
        is in a record.

        :raises ConfigurationError: they would not
        """
        if not isinstance(bucket, str):
            raise TypeMismatchError(f"A bucket must be a text, and the bucket assigner gave {bucket!r}.")
        problem = "it is an absolute path" if bucket.startswith("/") else ""
        problem = next(filter(None, (problem, *map(self._problem_of, bucket.split("/")))), "")
        if problem:
            raise ConfigurationError(
                f"FileSink can't put a file into the bucket {bucket[:_LONGEST]!r} of {self.base}: {problem}. Let the "
                "bucket assigner give names of folders below the base path, such as 'a' or 'a/b'"
            )
        return bucket

    def _problem_of(self, folder: str) -> str:
        """Why no bucket may have a folder of this name; empty if it may."""
        if folder in (".", ".."):
            return f"'{folder}' leads elsewhere"
        if folder.lower().startswith(STAGING):
            return f"names that begin with '{STAGING}' are those of folders that nobody looks into"
        if _CONTROL.search(folder):
            return "it has control characters"
        try:
            length = len(folder.encode())
        except UnicodeEncodeError:
            return "it is not valid Unicode"
        if length > _LONGEST:
            return f"a name in it has {length} bytes, and file systems take {_LONGEST}"
        return f"'{folder}' is the name of a file of this sink" if self.part(folder) is not None else ""

    def may_appear(self, target: str, base: str) -> bool:
        """Whether a part of a sink with this base path may appear there, whatever its prefix and suffix are."""
        inner = below(target, base)
        folders, _, name = (inner or "").rpartition("/")
        good = not any(map(self._problem_of, folders.split("/"))) and not _CONTROL.search(name)
        return good and _PART.fullmatch(name) is not None

    def part(self, name: str) -> PartName | None:
        """What a file name tells, None if it is not a part of this sink, by whichever driver of the lineage."""
        stem, suffix = re.escape(self.stem), re.escape(self.suffix)
        found = re.fullmatch(rf"(?:{COMPACTED})?{stem}(?:_([0-9a-f]+))?-(\d+)-(\d+){suffix}", name)
        return PartName(found[1] or "", int(found[2]), int(found[3])) if found else None
