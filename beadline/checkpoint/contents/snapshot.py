"""What a checkpoint or savepoint holds: a sealed step as plain data.

Nothing here knows how or where it is stored. Positions and committables are plain data (see
:mod:`beadline.checkpoint.contents.metadata` for the types); what operators keep in ``locals`` is bytes to this package.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from beadline.checkpoint.settings import Key
from beadline.errors import BeadlineError
from beadline.graph.program import Program
from beadline.state.description import StateDescription
from beadline.state.operator.handles import OperatorStateHandle
from beadline.state.segments.version import KeyedStateHandle, SegmentRef

FORMAT_VERSION = 1


class SnapshotError(BeadlineError):
    """A checkpoint or savepoint can't be written, found, read or trusted."""


class SnapshotKind(Enum):
    """A checkpoint belongs to the engine, which removes it when a newer one has completed; a savepoint to the user."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"


@dataclass(frozen=True)
class OperatorSnapshot:
    """One operator in a snapshot. Tuples have one entry per subtask, or none if the operator has nothing of the kind.

    :ivar generated_uid: the uid was derived from the topology and changes with it
    :ivar keyed: the versions of keyed state
    :ivar locals: small own state: watermarks, and what the operator keeps between steps
    :ivar operator_state: the versions of operator state
    :ivar position: of a source: where it goes on reading
    :ivar finished: of a source: nothing will come after the position
    :ivar committables: of a sink: what is pre-committed and is committed, again if need be, on restore
    :ivar next_timers: when each subtask wants its next step, in processing time
    :ivar parts: of a source with parts: which subtask reads each; of its watermark strategy: what it knows of each
    :ivar key_type: of keyed state, as :mod:`beadline.common.type_description` writes it; empty if none was declared
    """

    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    generated_uid: bool = False
    keyed: tuple[KeyedStateHandle | None, ...] = ()
    locals: tuple[bytes | None, ...] = ()
    operator_state: tuple[OperatorStateHandle | None, ...] = ()
    position: dict[str, Any] | None = None
    finished: bool = False
    committables: Any = None
    next_timers: tuple[int | None, ...] = ()
    state_descriptions: tuple[StateDescription, ...] = ()
    key_type: str = ""
    parts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def segments(self) -> Iterator[SegmentRef]:
        for handle in self.keyed:
            if handle is not None:
                yield from handle.segments
        for states in self.operator_state:
            if states is not None:
                yield from states.segments

    def subtask_size(self, subtask: int) -> int:
        """How many bytes of state one subtask has."""
        handle = self.keyed[subtask] if subtask < len(self.keyed) else None
        states = self.operator_state[subtask] if subtask < len(self.operator_state) else None
        local = self.locals[subtask] if subtask < len(self.locals) else None
        return (handle.size if handle else 0) + (states.size if states else 0) + len(local or b"")

    def with_segments(self, change: Callable[[SegmentRef], SegmentRef]) -> OperatorSnapshot:
        """The same state with its segments elsewhere."""
        return replace(
            self,
            keyed=tuple(
                h and KeyedStateHandle(h.root, tuple(change(segment) for segment in h.segments)) for h in self.keyed
            ),
            operator_state=tuple(states and states.with_segments(change) for states in self.operator_state),
        )


@dataclass(frozen=True)
class Snapshot:
    """A sealed step of a job.

    :ivar unaligned: taken while a later step was running
    :ivar in_flight: of an unaligned one: for each source's uid, the position after the step that was running
    :ivar timestamp: when it was triggered, in milliseconds
    :ivar counters: totals that go on counting after a restore
    :ivar epoch: the lease of the driver that wrote it
    :ivar lineage: the name of that driver's lineage; empty if it was written before there were any
    :ivar topology: equal for programs whose operators and channels are the same
    :ivar program: whose job it is; empty if that was not recorded
    """

    checkpoint_id: int
    job_id: str
    job_name: str
    step: int
    timestamp: int
    operators: tuple[OperatorSnapshot, ...]
    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    unaligned: bool = False
    in_flight: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    epoch: int = 0
    lineage: str = ""
    topology: str = ""
    program: Program = field(default_factory=Program)
    format_version: int = FORMAT_VERSION

    def __repr__(self) -> str:
        return (
            f"<{self.kind.value} {self.checkpoint_id} of '{self.job_name}': step {self.step}, "
            f"{len(self.operators)} operators, {self.size} bytes in {len(self.files())} files and inline>"
        )

    @property
    def segments(self) -> Iterator[SegmentRef]:
        for operator in self.operators:
            yield from operator.segments

    @property
    def size(self) -> int:
        """How many bytes of state it refers to or holds."""
        return sum(operator.subtask_size(i) for operator in self.operators for i in range(operator.parallelism))

    def as_own(self) -> Snapshot:
        """The same, known to be the job's: the bytes of its state need not be checked whenever they are read, but for
        what it has taken over from other jobs."""
        return self.with_segments(lambda segment: replace(segment, foreign=segment.foreign is True))

    def files(self) -> frozenset[str]:
        """The files that it needs."""
        return frozenset(segment.path for segment in self.segments if segment.path is not None)

    def committables(self) -> dict[str, Any]:
        """What it holds of the sinks, by uid."""
        return {o.uid: o.committables for o in self.operators if o.committables is not None}

    def operator(self, uid: str) -> OperatorSnapshot | None:
        return next((operator for operator in self.operators if operator.uid == uid), None)

    def with_segments(self, change: Callable[[SegmentRef], SegmentRef]) -> Snapshot:
        """The same state with its segments elsewhere."""
        return replace(self, operators=tuple(operator.with_segments(change) for operator in self.operators))


@contextlib.contextmanager
def explained(what: str, option: str = Key.DIRECTORY) -> Iterator[None]:
    """Raise what the file system says as an error of Beadline; ``option`` chooses the directory."""
    try:
        yield
    except OSError as error:
        advice = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            advice = f". Free some space there, or choose another directory with {option}"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            advice = ". The directory must be one that this process can make and write"
        raise SnapshotError(f"{what}: {error}{advice}") from error
