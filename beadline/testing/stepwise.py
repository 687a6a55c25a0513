"""A job whose steps the caller decides: the shipped job master on the local engine, with input that is pushed and a
clock that is set.

The job master runs in its own thread, as always. A push and the time that goes with it become visible to it at once;
then it is woken, and the caller waits until the step that read the push is sealed and nothing else is to be done. There
are no checkpoints, so a step that fails is left out and the job goes on after it, as any job without checkpoints does.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from beadline.checkpoint.actions import CheckpointKind, Take
from beadline.checkpoint.lookup import read_snapshot
from beadline.checkpoint.restart import Decision, FixedDelay
from beadline.checkpoint.snapshot import Snapshot
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.connectors.source import Position, StepSource
from beadline.errors import ConfigurationError
from beadline.graph.plan import Plan
from beadline.graph.specs import SourceSpec
from beadline.master import living
from beadline.master.engine import Descriptor
from beadline.master.job import JobMaster
from beadline.master.local import LocalDeployment, LocalEngine, Shipped, one_at_a_time
from beadline.master.progress import StepReport
from beadline.master.settings import JobSettings
from beadline.master.upkeep.truth import Truth
from beadline.runtime import worker
from beadline.runtime.messages import StepHeader, TaskAck
from beadline.runtime.worker import Shipment
from beadline.state.files import read_run
from beadline.state.version import Handle, RunRef, checksum_of

_AT = "round"
# So often a caller looks whether the job has ended; all else wakes it.
_LOOK_SECONDS = 0.02

Splits = Mapping[int, Sequence[Any]]
News = tuple[tuple[int, ...], tuple[int, ...]]


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

    def sealed(self, report: StepReport) -> None:
        """A step is sealed."""
        assert self._master is not None
        truth = self._master.truth
        assert truth is not None
        with self._changed:
            self.acks += self._engine.acks
            self._engine.news = ((), ())
            if self._round is not None and all(p[_AT] >= self._round.number for p in truth.positions.values()):
                self._round.sealed = True
            if report.final:
                take = Take(0, truth.step, CheckpointKind.SAVEPOINT)
                self.last = truth.snapshot(take, self._now, {}, {}).with_runs(_inline)

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
        assert self._master is not None
        truth = self._master.truth
        due = truth.next_timer if truth is not None else None
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
        """The job runs again after a failure."""
        with self._changed:
            self._be_quiet()

    def has_ended(self, node: int) -> bool:
        return node in self._ended


class _GoOn(FixedDelay):
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


class StepEngine(LocalEngine):
    """The local engine, which keeps the acknowledgements of a step for whoever called for it.

    :ivar acks: of the step that has run last
    :ivar news: the checkpoints that functions hear of in the next step: those that completed, and that were given up
    :ivar shipped: what workers get of the program
    """

    shipped: Shipped
    rounds: Rounds

    def __init__(self) -> None:
        super().__init__()
        self.acks: list[TaskAck] = []
        self.news: News = ((), ())

    def deployment(self, plan: Plan, shipped: Shipped, group: str) -> StepDeployment:
        self.shipped = shipped
        return StepDeployment(self, plan, shipped, group)


class StepDeployment(LocalDeployment):
    """A plan whose steps somebody has called for."""

    def __init__(self, engine: StepEngine, plan: Plan, shipped: Shipped, group: str) -> None:
        super().__init__(engine, plan, shipped, group)
        self.engine = engine

    def run_step(self, header: StepHeader, inputs: list[Descriptor]) -> list[TaskAck]:
        with self.engine.calling(self.group) as call:
            self.engine.rounds.admit(call.check)
        completed, aborted = self.engine.news
        self.engine.acks = super().run_step(replace(header, completed=completed, aborted=aborted), inputs)
        return self.engine.acks


class SteppedJob:
    """Runs a plan step by step; its sources are all :class:`PushSource`.

    :param settings: how it runs; checkpoints, restarts and clocks are seen to here
    :param restore: the path of a savepoint to start from
    :param now: what the clock shows at first
    """

    def __init__(
        self,
        plan: Plan,
        settings: JobSettings | None = None,
        restore: str | None = None,
        now: int = 0,
        engine: StepEngine | None = None,
    ) -> None:
        self._plan = plan
        self._settings = settings or JobSettings()
        self._restore = restore
        self._now = now
        self.engine = engine or StepEngine()
        self._sealed = False
        self._start()

    def __repr__(self) -> str:
        return f"<SteppedJob {self._master!r}>"

    def _start(self) -> None:
        self._rounds = Rounds(self._now, self.engine)
        settings = replace(
            self._settings,
            checkpoints=replace(self._settings.checkpoints, interval_ms=None, restore_path=self._restore),
            restart=_GoOn(self._rounds),
            clock=self._rounds.clock,
            monotonic=int,  # it stands still: nothing expires while a test thinks
        )
        for node in self._plan.nodes.values():
            if isinstance(node.spec, SourceSpec):
                node.spec.source.attach(self._rounds, node.id)
        self.engine.rounds = self._rounds
        self._master = JobMaster(self._plan, self.engine, settings, None, [self._rounds.sealed])
        self.plan = self._master.plan
        self._rounds.attach(self._master)
        self._master.start()
        _started.add(self._master)
        # Whoever collects garbage may be in a task, so nobody waits here.
        weakref.finalize(self, self._master.cancel)
        error = self._rounds.wait()
        if error is not None:
            raise error

    # -- steps

    def step(
        self,
        splits: Splits | None = None,
        now: int = 0,
        ended: Iterable[int] | None = (),
        more: bool = False,
        news: News = ((), ()),
    ) -> list[TaskAck]:
        """Run a step on that input, and the steps of timers that become due by it; gives their acknowledgements.

        What user code raises is raised here, and all is as it was before.

        :param now: what the clock shows from now on; it does not go back
        :param ended: source nodes that end; None for all, with which the job ends
        :param more: let the sources say that there is more to read
        :param news: checkpoints that functions hear of: those that completed, and that were given up
        """
        if self.has_ended:
            raise ConfigurationError("the job has ended")
        self._now = max(self._now, now)
        self.engine.news = news
        self._rounds.push(splits or {}, self._now, ended, more)
        self._master.wake()
        error = self._rounds.wait()
        self.engine.news = ((), ())
        if error is not None:
            if self.has_ended and not self._sealed:
                self._start()  # a job that can't do its very first step gives up
            raise error
        self._sealed = True
        return self._rounds.acks

    @property
    def has_ended(self) -> bool:
        return self._master.wait(0)

    def close(self) -> None:
        """End the job; functions are closed."""
        _end(self._master)

    # -- looking

    @property
    def truth(self) -> Truth:
        """What holds after the last step."""
        truth = self._master.truth
        assert truth is not None
        return truth

    def handle(self, node: int, subtask: int) -> Handle | None:
        """The version of keyed state that a subtask has come to, also when the job has ended."""
        last = self._rounds.last
        if last is None:
            return self.truth.book.handles.get((node, subtask))
        held = last.operator(self.plan.nodes[node].uid)
        return held.keyed[subtask] if held is not None and held.keyed else None

    @contextmanager
    def looking(self) -> Iterator[None]:
        """State may be read in here: it may hold classes of this job's modules, and of no others."""
        with one_at_a_time:
            shipment: Shipment = self.engine.shipped.value.open()
            shipment.enter()
            yield

    # -- failure and change

    def snapshot(self, directory: str) -> Snapshot:
        """A real savepoint, with all state inside."""
        last = self._rounds.last
        if last is not None:
            return last
        return read_snapshot(self.savepoint(directory)).with_runs(_inline)

    def savepoint(self, directory: str) -> str:
        """Take a savepoint and give its path."""
        self._rounds.call()
        answer = self._master.trigger(CheckpointKind.SAVEPOINT, directory, format=SavepointFormatType.NATIVE)
        return answer.result()

    def lose_worker(self) -> None:
        """Let go of every function and store; the next step makes them again from what was sealed."""
        mine = self._master.execution
        with one_at_a_time:
            worker.forget_all_but(tuple(name for name in living.executions() if name != mine))


_started: weakref.WeakSet[JobMaster] = weakref.WeakSet()


def _end(master: JobMaster) -> None:
    master.cancel()
    master.wait(60)


@atexit.register
def _end_all() -> None:
    """What nobody has closed leaves no files."""
    for master in list(_started):
        _end(master)


def _inline(run: RunRef) -> RunRef:
    if run.inline is not None:
        return run
    data = read_run(run)
    return replace(run, inline=data, path=None, offset=0, checksum=checksum_of(data))
