"""Files of a bulk format: not a row after the other, but a whole with a beginning and an end.

In the steps, records are *staged* in a form that can be put together by writing one piece after the other. When a part
is made ready, the pieces become the file. So a part may grow over several steps, and what is staged is kept in
checkpoints and savepoints like that of any other file sink.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from beadline.connectors.files.pieces import Piece, of_rows
from beadline.connectors.files.place import Assemble
from beadline.connectors.files.policy import Compaction, RollingPolicy
from beadline.connectors.files.sink import FileSinkBase
from beadline.connectors.sink import Former, Stager


class PieceWriter(ABC):
    """Takes the records of one piece."""

    @abstractmethod
    def write(self, records: list[Any]) -> None:
        """Encode records. It raises for one that does not fit."""

    @abstractmethod
    def finish(self) -> list[bytes]:
        """What is staged."""


class BulkEncoding(ABC):
    """What a format does. Picklable."""

    @abstractmethod
    def piece(self) -> PieceWriter:
        """For the records of one step, subtask and bucket."""

    @abstractmethod
    def assemble(self, staged: Iterator[bytes]) -> Iterator[bytes]:
        """The file with the records of several pieces, given one after the other in chunks of any length."""


@dataclass
class BulkFileSink(FileSinkBase):
    """Writes files of a bulk format to ``base_path/bucket/prefix-run[_driver]-subtask-counter suffix``."""

    base_path: str
    encoding: BulkEncoding
    bucket_of: Callable[[Any, int], str]
    policy: RollingPolicy = field(default_factory=lambda: RollingPolicy(on_checkpoint=True))
    prefix: str = "part"
    suffix: str = ""
    run: str = ""
    epoch: int = 0
    driver: str = ""
    former: tuple[Former, ...] = ()
    compaction: Compaction | None = None

    def stager(self, subtask: int, step: int, now: int) -> Stager:
        return _BulkStager(self, subtask, now)

    def _assembler(self) -> Assemble:
        return self.encoding.assemble


class _BulkStager(Stager):
    def __init__(self, sink: BulkFileSink, subtask: int, now: int) -> None:
        self._sink = sink
        self._names = sink.names
        self._subtask = subtask
        self._now = now
        self._buckets: dict[str, PieceWriter] = {}

    def write(self, records: list[Any], timestamps: list[int] | None) -> None:
        bucket_of, now = self._sink.bucket_of, self._now
        groups: dict[str, list[Any]] = {}
        for record in records:
            groups.setdefault(bucket_of(record, now), []).append(record)
        for bucket, group in groups.items():
            writer = self._buckets.get(bucket)
            if writer is None:
                writer = self._buckets[self._names.checked(bucket)] = self._sink.encoding.piece()
            writer.write(group)

    def finish(self) -> list[Piece]:
        folder = self._names.staging
        return [of_rows(folder, bucket, self._subtask, writer.finish()) for bucket, writer in self._buckets.items()]
