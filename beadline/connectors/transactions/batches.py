"""A log that takes the rows of all subtasks at once, on the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from beadline.connectors.files.pieces import Piece
from beadline.connectors.sink import Call, Committer
from beadline.connectors.transactions.committer import OutsideCommitter
from beadline.connectors.transactions.contract import Encoder, Fate
from beadline.connectors.transactions.place import Outside
from beadline.connectors.transactions.sink import OutsideSink


class BatchLog(ABC):
    """A system that is handed whole batches."""

    def check(self) -> None:
        """Called on the driver before the first step: raise if the system can't be written to."""

    @abstractmethod
    def append(self, writer: str, number: int, pieces: list[Piece]) -> None:
        """Write the rows of a checkpoint. Numbers of a writer grow. After a failure the last few batches may come
        again, in order, and must have no effect then: a number up to the newest that is known was written."""


class BatchSink(OutsideSink):
    """Hands each checkpoint's rows to a log as one batch."""

    def __init__(self, log: BatchLog, encode: Encoder) -> None:
        super().__init__(encode, "batch")
        self.log = log

    def check(self) -> None:
        self.log.check()

    def place(self) -> Outside:
        return _BatchPlace(self._names, former=self._former)

    def committer(self) -> Committer:
        return _BatchCommitter(_BatchPlace(self._names, former=self._former), self.log)


class _BatchPlace(Outside):
    def finish(self, committable: dict[str, Any], recovering: bool) -> Fate:
        raise AssertionError("batches are written whole")


class _BatchCommitter(OutsideCommitter):
    def __init__(self, place: Outside, log: BatchLog) -> None:
        super().__init__(place, heavy=False)
        self._log = log
        self._newest_visible = -1

    def publish(self, committables: list[Any], call: Call, recovering: bool) -> list[Any]:
        batches: dict[tuple[int, str], list[Any]] = {}
        for committable in sorted(committables, key=lambda each: (each["number"], each["subtask"])):
            if committable["number"] > self._newest_visible:
                batches.setdefault((committable["number"], committable["writer"]), []).append(committable)
        for (number, writer), batch in batches.items():
            self._log.append(writer, number, [Piece(*piece) for each in batch for piece in each["pieces"]])
            self._newest_visible = number
        return []
