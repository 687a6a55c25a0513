"""How the files of one sink are called.

Parts are counted by subtask, and the counters are in the checkpoint: after a restore they go on from there. Names and
staging folders tell the epoch of their driver, and no driver removes what belongs to a later epoch: it may have been
fenced and not know it yet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from beadline.state.segments.files import join, local_path

STAGING = ".staging-"
COMPACTED = "compacted-"


class PartName(NamedTuple):
    """What the name of a part tells."""

    epoch: int
    subtask: int
    counter: int


@dataclass(frozen=True)
class Names:
    """``base/bucket/prefix-run[_epoch]-subtask-counter suffix``, and what is hidden in ``base/.staging-run/epoch``.

    :ivar base: an absolute local path, or a URI
    :ivar run: names the sink of this job, the same whenever the job is resumed
    """

    base: str
    prefix: str
    suffix: str
    run: str
    epoch: int

    @property
    def stem(self) -> str:
        """How the names of this job's parts begin."""
        return f"{self.prefix}-{self.run[:8]}"

    @property
    def all_staged(self) -> str:
        """The folder of what drivers of all epochs staged."""
        return join(self.base, STAGING + self.run)

    @property
    def staging(self) -> str:
        return join(self.all_staged, str(self.epoch))

    def target(self, bucket: str, subtask: int, counter: int, compacted: bool = False) -> str:
        """Where a part appears."""
        epoch = f"_{self.epoch}" if self.epoch else ""
        names = [name for name in bucket.split("/") if name]
        prefix = COMPACTED if compacted else ""
        names.append(f"{prefix}{self.stem}{epoch}-{subtask}-{counter}{self.suffix}")
        return join(self.base, *(names if local_path(self.base) is not None else map(quote, names)))

    def part(self, name: str) -> PartName | None:
        """What a file name tells, None if it is not a part of this sink."""
        stem, suffix = re.escape(self.stem), re.escape(self.suffix)
        found = re.fullmatch(rf"(?:{COMPACTED})?{stem}(?:_(\d+))?-(\d+)-(\d+){suffix}", name)
        return PartName(int(found[1] or 0), int(found[2]), int(found[3])) if found else None
