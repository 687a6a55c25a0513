"""The life of one checkpoint or savepoint on the driver: a record with a phase.

========== ======================================================= ===========================================
phase      what holds                                              what comes next
========== ======================================================= ===========================================
TRIGGERED  it has a number, and waits for the step that runs       PREPARING, WRITING (a savepoint), GIVEN_UP
PREPARING  it has a snapshot; a thread makes output ready          WRITING, GIVEN_UP
WRITING    a thread makes it durable                               COMPLETE, GIVEN_UP
COMPLETE   it is durable. A checkpoint can be gone back to         PUBLISHING, gone
PUBLISHING a thread makes its output visible                       COMPLETE, gone
GIVEN_UP   nobody waits for it; a thread may still be at it, and   gone
           what it names must stay for as long
========== ======================================================= ===========================================

A record is gone when it is of no more use: a checkpoint that was discarded, a savepoint that is the user's.
Only the job master's thread changes records; what threads make is the result of their future.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.storage.publishing import Stored
from beadline.master.events import Request


class Phase(Enum):
    """Where a checkpoint or savepoint stands."""

    TRIGGERED = "triggered"
    PREPARING = "preparing"
    WRITING = "writing"
    COMPLETE = "complete"
    PUBLISHING = "publishing"
    GIVEN_UP = "given up"


@dataclass(eq=False)
class Record:
    """One checkpoint or savepoint.

    :ivar request: the request for it, None if the clock asked, or if it was answered
    :ivar taken: the sealed step, until the functions have heard how it ended
    :ivar prepared: the same with the sinks' output made ready: what is written
    :ivar stored: where it is
    :ivar work: what a thread does for it now
    :ivar claimed: it is the snapshot that the job has claimed
    """

    id: int
    kind: CheckpointKind
    phase: Phase = Phase.TRIGGERED
    request: Request | None = None
    taken: Snapshot | None = None
    prepared: Snapshot | None = None
    stored: Stored | None = None
    work: Future[Any] | None = None
    claimed: bool = False

    @property
    def stops(self) -> bool:
        """Whether the job ends with it, and it publishes."""
        return self.kind.is_savepoint and self.kind.commits

    @property
    def unheard(self) -> Stored | None:
        """Where it is, if a thread has made it durable and the job has not heard of that yet."""
        work = self.work
        if work is None or not work.done() or work.cancelled() or work.exception() is not None:
            return None
        made = work.result()
        return made if isinstance(made, Stored) else None

    @property
    def snapshots(self) -> Iterator[Snapshot]:
        """All forms of it that somebody may still need."""
        for snapshot in (self.taken, self.prepared, self.stored.snapshot if self.stored is not None else None):
            if snapshot is not None:
                yield snapshot


class Records:
    """Those of one job, by number."""

    def __init__(self) -> None:
        self._records: dict[int, Record] = {}

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._records.values()))

    def __getitem__(self, id: int) -> Record:
        return self._records[id]

    def get(self, id: int) -> Record | None:
        return self._records.get(id)

    def add(self, record: Record) -> None:
        self._records[record.id] = record

    def remove(self, record: Record) -> None:
        self._records.pop(record.id, None)

    def sink_data(self) -> list[Any]:
        """What all of them hold for the sinks."""
        return [snapshot.committables() for record in self for snapshot in record.snapshots]
