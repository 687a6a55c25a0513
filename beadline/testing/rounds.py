"""Input that is pushed, round by round, and a clock that is set: how a caller and a job master take turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.coordinator.actions import CheckpointKind, Take
from beadline.checkpoint.restart import Decision, FixedDelay
from beadline.connectors.source import Position, StepSource
from beadline.master.job import JobMaster
from beadline.master.reporting import news
from beadline.runtime.messages import TaskAck
from beadline.state.segments.files import read_segment
from beadline.state.segments.version import SegmentRef, checksum_of

if TYPE_CHECKING:
    from beadline.testing.stepwise import StepEngine

_AT = "round"
# So often a caller looks whether the job has ended; all else wakes it.
_LOOK_SECONDS = 0.02

Splits = Mapping[int, Sequence[Any]]


@dataclass
class Round:
    """One push: what the sources read in one step.

    :ivar splits: of each source node that gets something
    :ivar ended: source nodes that end with it; None for all
    :ivar more: sources say that there is more to read, so that watermarks wait for it
    :ivar sealed: whether the step that read it is sealed
    """

    number: int
    splits: Splits
    ended: frozenset[int] | None
    more: bool = False
    sealed: bool = False


class Rounds:
    """What was pushed, how far it has got, and what time it is: between the caller and the job master's thread.

    :ivar acks: of the steps that were sealed since the last push
    :ivar last: the snapshot of the last step, when that is sealed
    """

    def __init__(self, now: int, engine: StepEngine) -> None:
        self.acks: list[TaskAck] = []
        self.last: Snapshot | None = None
        self._changed = threading.Condition()
        self._now = now
        self._seen_at = -1  # where the sources are
        self._round: Round | None = None
        self._clock_read = False
        self._quiet = self._ends = False
        self._failures = 0
        self._ended: dict[int, int] = {}  # with which round
        self._engine = engine
        self._master: JobMaster | None = None

    def attach(self, master: JobMaster) -> None:
        self._master = master

    # -- for the caller

    def push(self, splits: Splits, now: int, ended: Iterable[int] | None, more: bool) -> None:
        """Let the sources have something, and the clock show that time."""
        with self._changed:
            self._ends = ended is None
            self.acks = []
            self._now = max(self._now, now)
            self._round = Round(self._seen_at + 1, splits, None if ended is None else frozenset(ended), more)
            self._clock_read = False
        self.call()

    def call(self) -> None:
        """Somebody wants something of the job: let it run."""
        with self._changed:
            self._quiet = False
            self._changed.notify_all()

    def wait(self) -> BaseException | None:
        """Wait until the job has nothing to do, or has ended; gives what failed meanwhile."""
        master = self._master
        assert master is not None
        while not self._is_quiet():
            if master.wait(_LOOK_SECONDS if self._ends else 0):
                return master.error
        history = master.history[self._failures :]
        self._failures += len(history)
        return history[-1].error if history else None

    def _is_quiet(self) -> bool:
        """Whether the job has nothing to do; waits a little for that, unless it is to end."""
        with self._changed:
            return self._quiet if self._ends else self._changed.wait_for(lambda: self._quiet, _LOOK_SECONDS)

    # -- for the job master's thread

    def clock(self) -> int:
        with self._changed:
            self._clock_read = True
            return self._now

    def admit(self, check: Callable[[], None]) -> None:
        """A step is about to run. A timer that fails is due again at once: it has to wait until somebody calls.

        :param check: raises if the step is not wanted any more
        """
        with self._changed:
            while not self._changed.wait_for(lambda: not self._quiet, _LOOK_SECONDS):
                check()

    def sealed(self, event: news.News) -> None:
        if not isinstance(event, news.StepReport):
            return
        assert self._master is not None
        truth = self._master.truth
        assert truth is not None
        with self._changed:
            self.acks += self._engine.acks
            self._engine.news = ((), ())
            if self._round is not None and all(p[_AT] >= self._round.number for p in truth.positions.values()):
                self._round.sealed = True
            if event.final:
                take = Take(0, truth.step, CheckpointKind.SAVEPOINT)
                self.last = truth.snapshot(take, self._now, {}, {}).with_segments(inlined)

    def plan(self, node: int, start: Position) -> tuple[Position, list[Any]]:
        """What a source reads next. The job master asks when no step is under way, and at once after each."""
        with self._changed:
            pushed = self._round
            if pushed is not None and start[_AT] < pushed.number:
                if not self._clock_read:  # the step would have the time from before the push
                    return start, []
                self._seen_at = pushed.number
                if pushed.ended is None or node in pushed.ended:
                    self._ended[node] = pushed.number
                return {_AT: pushed.number}, list(pushed.splits.get(node, ())) or [()]
            self._seen_at = max(self._seen_at, start[_AT])
            self._look_around(pushed)
            if pushed is not None and pushed.more:
                return {**start, "more": not start.get("more")}, []
            return start, []

    def _look_around(self, pushed: Round | None) -> None:
        truth = None if self._master is None else self._master.truth
        if truth is None:
            return  # it has not begun: who asks is the job that it takes over from
        due = truth.next_timer
        if (pushed is None or pushed.sealed) and (due is None or due > self._now):
            self._be_quiet()

    def _be_quiet(self) -> None:
        self._quiet = True
        self._changed.notify_all()

    def failed(self) -> None:
        """A step failed, and it is as if it had never been asked for."""
        with self._changed:
            if self._round is not None:
                self._ended = {node: at for node, at in self._ended.items() if at < self._round.number}

    def goes_on(self) -> None:
        with self._changed:
            self._be_quiet()

    def has_ended(self, node: int) -> bool:
        return node in self._ended


class GoOn(FixedDelay):
    """Goes on at once, however often steps fail."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(None, 0)
        self._rounds = rounds

    def failed(self, now: int) -> Decision:
        self._rounds.failed()
        return super().failed(now)

    def running(self, now: int) -> None:
        self._rounds.goes_on()


class PushSource(StepSource):
    """Reads what is pushed. A split is a list of what :meth:`read_batches` is to give.

    :ivar rounds: on the driver, what is pushed
    """

    timed = True

    rounds: Rounds | None = None
    _node = 0

    def attach(self, rounds: Rounds, node: int) -> None:
        self.rounds, self._node = rounds, node

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "rounds"}

    def initial(self) -> Position:
        return {_AT: 0}

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        assert self.rounds is not None
        return self.rounds.plan(self._node, start)

    def finished(self, position: Position) -> bool:
        assert self.rounds is not None
        return self.rounds.has_ended(self._node)

    def read_batches(self, split: Any) -> Iterator[Any]:
        yield from split

    def poll_interval(self) -> float:
        return 60.0


def inlined(segment: SegmentRef) -> SegmentRef:
    if segment.inline is not None:
        return segment
    data = read_segment(segment)
    return replace(segment, inline=data, path=None, offset=0, checksum=checksum_of(data))
