"""Sinks that write outside, as the engine sees them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from beadline.connectors.files.names import Names
from beadline.connectors.files.pieces import of_rows
from beadline.connectors.sink import Committer, Former, StagedSink, Stager
from beadline.connectors.transactions.committer import OutsideCommitter
from beadline.connectors.transactions.contract import Encoder, Log, Transactions
from beadline.connectors.transactions.place import LogPlace, Outside, TransactionPlace
from beadline.connectors.transactions.rows import packed


class OutsideSink(StagedSink):
    """Stages rows in the job's folder.

    :param prefix: how the names of what it makes outside begin
    """

    stages_in_job_folder = True

    def __init__(self, encode: Encoder, prefix: str) -> None:
        self._encode = encode
        self._prefix = prefix
        self._names = Names("", prefix, "", "", 0)
        self._former: list[Names] = []

    def prepare(
        self, run: str, epoch: int = 0, folder: str = "", driver: str = "", former: Sequence[Former] = ()
    ) -> None:
        self._names = Names(folder, self._prefix, "", run, epoch, driver)
        self._former = [
            Names(folder, each.whereabouts or self._prefix, "", each.run, each.epoch, each.driver, each.is_own)
            for each in former
        ]
        self.check()
        self.place().prepare()

    def whereabouts(self) -> Any:
        """All drivers stage in the job's folder, wherever that is; their transactions may begin otherwise."""
        return self._prefix

    @abstractmethod
    def check(self) -> None:
        """Whether the system outside can be written to."""

    @abstractmethod
    def place(self) -> Outside:
        """Where rows go."""

    def stager(self, subtask: int, step: int, now: int) -> Stager:
        return _RowStager(self._encode, self._names.staging, subtask)


class TransactionalSink(OutsideSink):
    """Writes in transactions, whose ids begin with the prefix."""

    def __init__(self, transactions: Transactions, encode: Encoder, prefix: str) -> None:
        super().__init__(encode, prefix)
        self.transactions = transactions

    def check(self) -> None:
        self.transactions.check()

    def place(self) -> Outside:
        return TransactionPlace(self._names, self.transactions, self.settings.unknown, self._former)

    def committer(self) -> Committer:
        return OutsideCommitter(self.place(), heavy=False)


class LogSink(OutsideSink):
    """Appends to a log."""

    def __init__(self, log: Log, encode: Encoder) -> None:
        super().__init__(encode, "log")
        self.log = log

    def check(self) -> None:
        self.log.check()

    def place(self) -> Outside:
        return LogPlace(self._names, self.log, self._former)

    def committer(self) -> Committer:
        return OutsideCommitter(self.place(), heavy=True)

    def guarantee(self) -> str:
        return "exactly-once" if self.log.exactly_once else "at-least-once"


class _RowStager(Stager):
    def __init__(self, encode: Encoder, folder: str, subtask: int) -> None:
        self._encode = encode
        self._folder = folder
        self._subtask = subtask
        self._rows: list[Any] = []

    def write(self, records: list[Any], timestamps: list[int] | None) -> None:
        self._rows += self._encode(records, timestamps)

    def finish(self) -> list[Any]:
        return [of_rows(self._folder, "", self._subtask, packed(self._rows))] if self._rows else []
