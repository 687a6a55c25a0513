"""A job whose steps the caller decides: the shipped job master on the local engine, with input that is pushed and a
clock that is set.

The job master runs in its own thread, as always. A push and the time that goes with it become visible to it at once;
then it is woken, and the caller waits until the step that read the push is sealed and nothing else is to be done. There
are no checkpoints, so a step that fails is left out and the job goes on after it, as any job without checkpoints does.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.errors import ConfigurationError
from beadline.graph.plan import Plan
from beadline.graph.specs import SourceSpec
from beadline.master import life
from beadline.master.definition import JobSettings
from beadline.master.engines.engine import Descriptor
from beadline.master.engines.local import LocalDeployment, LocalEngine, Shipped, one_at_a_time
from beadline.master.job import JobMaster
from beadline.master.upkeep.truth import Truth
from beadline.runtime.messages import StepHeader, TaskAck
from beadline.runtime.worker import worker
from beadline.runtime.worker.worker import Shipment
from beadline.state.segments.version import KeyedStateHandle
from beadline.testing.rounds import GoOn, Rounds, Splits, inlined

News = tuple[tuple[int, ...], tuple[int, ...]]


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

    _engine: StepEngine

    def run_step(self, header: StepHeader, inputs: list[Descriptor]) -> list[TaskAck]:
        with self._engine.calling(self.group) as call:
            self._engine.rounds.admit(call.check)
        completed, aborted = self._engine.news
        self._engine.acks = super().run_step(replace(header, completed=completed, aborted=aborted), inputs)
        return self._engine.acks


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

    def _start(self) -> None:
        self._rounds = Rounds(self._now, self.engine)
        settings = replace(
            self._settings,
            checkpoints=replace(self._settings.checkpoints, interval_ms=None, restore_path=self._restore),
            restart=GoOn(self._rounds),
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
        _end(self._master)

    # -- looking

    @property
    def truth(self) -> Truth:
        """What holds after the last step."""
        truth = self._master.truth
        assert truth is not None
        return truth

    def handle(self, node: int, subtask: int) -> KeyedStateHandle | None:
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
            shipment.classes.enter()
            yield

    # -- failure and change

    def snapshot(self, directory: str) -> Snapshot:
        """A real savepoint, with all state inside."""
        last = self._rounds.last
        if last is not None:
            return last
        return read_snapshot(self.savepoint(directory)).with_segments(inlined)

    def savepoint(self, directory: str) -> str:
        self._rounds.call()
        answer = self._master.trigger(CheckpointKind.SAVEPOINT, directory, format=SavepointFormatType.NATIVE)
        return answer.result()

    def lose_worker(self) -> None:
        """Let go of every function and store; the next step makes them again from what was sealed."""
        mine = self._master.execution
        with one_at_a_time:
            worker.forget_all_but(tuple(name for name in life.executions() if name != mine))


_started: weakref.WeakSet[JobMaster] = weakref.WeakSet()


def _end(master: JobMaster) -> None:
    master.cancel()
    master.wait(60)


@atexit.register
def _end_all() -> None:
    """What nobody has closed leaves no files."""
    for master in list(_started):
        _end(master)
