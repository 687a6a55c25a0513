"""Rows to files: the sink, and what its tasks do."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from beadline.connectors.files.committer import FileCommitter
from beadline.connectors.files.names import Names
from beadline.connectors.files.pieces import of_rows
from beadline.connectors.files.place import Assemble, check_base, place_of
from beadline.connectors.files.policy import Compaction, RollingPolicy
from beadline.connectors.sink import Committer, Former, StagedSink, Stager
from beadline.state.segments.files import local_path

__all__ = ["Compaction", "FileSinkBase", "RollingPolicy", "RowFileSink"]


class FileSinkBase(StagedSink):
    """What sinks to files share, however they encode records."""

    silent_without_checkpoints = True
    base_path: str
    bucket_of: Callable[[Any, int], str]
    policy: RollingPolicy
    prefix: str
    suffix: str
    run: str
    epoch: int
    driver: str
    former: tuple[Former, ...]
    compaction: Compaction | None

    def prepare(
        self, run: str, epoch: int = 0, folder: str = "", driver: str = "", former: Sequence[Former] = ()
    ) -> None:
        self.run, self.epoch, self.driver, self.former = run, epoch, driver, tuple(former)
        check_base(self.base_path)
        self.base_path = _absolute(self.base_path)
        place_of(self.names).prepare()

    def without_checkpoints(self) -> str:
        if self.policy.on_checkpoint:
            return "no file will be seen while it runs"
        return "a file will be seen only when its rolling policy closes it, by size or by time"

    @property
    def names(self) -> Names:
        return Names(self.base_path, self.prefix, self.suffix, self.run, self.epoch, self.driver)

    def whereabouts(self) -> Any:
        return [self.base_path, self.prefix, self.suffix]

    def committer(self) -> Committer:
        by_base = {self.base_path: [self.names]}
        for former in sorted(self.former, key=lambda each: each.epoch, reverse=True):
            base, prefix, suffix = former.whereabouts or self.whereabouts()
            names = Names(base, prefix, suffix, former.run, former.epoch, former.driver, former.is_own)
            by_base.setdefault(base, []).append(names)
        place, *elsewhere = (place_of(names, self._assembler(), others) for names, *others in by_base.values())
        return FileCommitter(place, self.policy, self.compaction, elsewhere)

    def _assembler(self) -> Assemble | None:
        """What makes a file of the pieces of a part; None if it is these, one after the other."""
        return None


@dataclass
class RowFileSink(FileSinkBase):
    """Writes encoded rows to ``base_path/bucket/prefix-run[_driver]-subtask-counter suffix``."""

    base_path: str
    encode: Callable[[Any], bytes]
    bucket_of: Callable[[Any, int], str]
    policy: RollingPolicy = field(default_factory=RollingPolicy)
    prefix: str = "part"
    suffix: str = ""
    run: str = ""
    epoch: int = 0
    driver: str = ""
    former: tuple[Former, ...] = ()
    compaction: Compaction | None = None

    def stager(self, subtask: int, step: int, now: int) -> Stager:
        return _RowStager(self, subtask, now)


def _absolute(path: str) -> str:
    """One spelling for a place. Checkpoints name files, and the job may be resumed from another folder."""
    local = local_path(path)
    if local is not None:
        return os.path.abspath(local)
    parts = urlsplit(path)
    inner = quote(unquote(parts.path).strip("/"))
    return f"{parts.scheme}://{parts.netloc}/{inner}" + (f"?{parts.query}" if parts.query else "")


class _RowStager(Stager):
    def __init__(self, sink: RowFileSink, subtask: int, now: int) -> None:
        self._sink = sink
        self._names = sink.names
        self._subtask = subtask
        self._now = now
        self._buckets: dict[str, list[bytes]] = {}

    def write(self, records: list[Any], timestamps: list[int] | None) -> None:
        encode, bucket_of, now, buckets = self._sink.encode, self._sink.bucket_of, self._now, self._buckets
        for record in records:
            rows = buckets.get(bucket := bucket_of(record, now))
            if rows is None:
                rows = buckets[self._names.checked(bucket)] = []
            rows.append(encode(record))

    def finish(self) -> list[Any]:
        folder = self._names.staging
        return [of_rows(folder, bucket, self._subtask, rows) for bucket, rows in self._buckets.items()]
