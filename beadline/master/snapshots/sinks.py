"""The sinks of a job on the driver: what they have staged, and what waits for which checkpoint.

Without checkpoints, in at-least-once mode, and for a sink that can give no more than that, what the sink finds complete
is published when its step is sealed, before the next one begins. Otherwise it becomes part of the next checkpoint: it
is pre-committed before that is written, and published when it has completed. Until it is visible, every further
checkpoint holds it too: a newer one may complete, and be the one that is restored, before that. If a system outside has
aborted what was pre-committed, the output begins its way again, and is in the next checkpoint.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from beadline.checkpoint.cleanup.removal import OUTPUT
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.directory.lookup import folder_of
from beadline.checkpoint.ownership.lease import Fenced
from beadline.connectors.sink import Committer, Held, StagedSink
from beadline.errors import JobExecutionError
from beadline.graph.specs import SinkSpec
from beadline.master.snapshots.calls import Calls
from beadline.master.snapshots.outputs import Limit, Output, Promises, SinkData, Turns, held_of, prepare, with_sink_data
from beadline.master.snapshots.records import Records
from beadline.runtime.messages import SubtaskAck
from beadline.state.segments.files import join, parent

if TYPE_CHECKING:
    from beadline.master.definition import Job

_LOG = logging.getLogger("beadline")


class Sinks:
    """All committers of a job.

    :param records: the checkpoints that the job may go back to
    """

    def __init__(self, job: Job, records: Records) -> None:
        plan, engine, storage = job.plan, job.engine, job.home.storage
        self._plan = plan
        # Knows whether another driver has the job, and is asked before anything is published without a checkpoint:
        # nothing else keeps a driver that lost its job from publishing.
        self._storage = storage
        self._records = records
        self._committers: dict[str, Committer] = {}
        self._nodes: dict[str, int] = {}
        self._outputs: dict[int, Output] = {}
        self._numbers = itertools.count(1)
        self.promises = Promises()
        # Checkpoints that are written at the same time hold the same output: it is pre-committed once.
        self._precommitting = threading.Lock()
        self._changing = threading.Lock()
        self._turns = Turns()
        self._limit = Limit(job.settings.sinks.max_staged)
        # What can't become visible any more, by identity, until the master thread hears of it.
        self._lost: dict[int, Any] = {}
        self._final = self._last_is_taken = False
        # Those whose output is published by checkpoints, not by steps.
        self._waiting: set[str] = set()
        for node in plan.nodes.values():
            if isinstance(node.spec, SinkSpec):
                sink: StagedSink = node.spec.sink
                prepare(sink, node.uid, job)
                if job.exactly_once and sink.guarantee() == "exactly-once":
                    self._waiting.add(node.uid)
                self._committers[node.uid] = sink.committer()
                self._nodes[node.uid] = node.id
        sinks = {node.uid: node.spec.sink for node in plan.nodes.values() if isinstance(node.spec, SinkSpec)}
        storage.note_outputs({uid: sink.whereabouts() for uid, sink in sinks.items()})
        self.calls = Calls(engine, storage.job_id, plan)
        self._empty = {uid: committer.snapshot() for uid, committer in self._committers.items()}

    def __repr__(self) -> str:
        released = sum(output.released for output in self._outputs.values())
        return (
            f"<Sinks: {len(self._committers)}, {len(self._outputs) - released} parts wait, {released} are being "
            "published>"
        )

    def __len__(self) -> int:
        return len(self._committers)

    def sealed(self, subtasks: list[SubtaskAck], now: int, final: bool) -> None:
        """A step was sealed. What waits for no checkpoint is handed out: see :meth:`ready_at_once`."""
        self._final = final
        for uid, committer in self._committers.items():
            committer.sealed([p for s in subtasks if s.node == self._nodes[uid] for p in s.staged], now, final)
            if uid not in self._waiting:
                self._hand_out(uid, committer.due(at_checkpoint=False))

    # -- output that waits for no checkpoint

    def ready_at_once(self) -> list[Output]:
        """What is to be published now that a step is sealed: what no checkpoint holds; after the last step also what
        only abandoned checkpoints hold. First :meth:`publish_at_once`, then :meth:`published_at_once`."""
        return [output for output in self._outputs.values() if self._is_ready(output, self._final)]

    def publish_at_once(self, outputs: list[Output]) -> list[tuple[Output, Any]]:
        """Make output visible that waits for no checkpoint. Runs in a thread; gives what was published of each."""
        self._storage.check_if_reachable()
        made = self._precommit(outputs)
        self.publish([(output.uid, made[output.number]) for output in outputs])
        return [(output, made[output.number]) for output in outputs]

    def published_at_once(self, published: list[tuple[Output, Any]]) -> int:
        """It is visible, or lost: gives how much was lost, which comes again with the next step. What leaves in order
        may have been published by a checkpoint meanwhile, or begun its way again."""
        present = []
        for output, committable in published:
            if self._outputs.get(output.number) is output and output.committable is committable:
                present.append(output)
            else:
                self._lost.pop(id(committable), None)
        lost = self._settle(present)
        self.tidy()
        return lost

    def _is_ready(self, output: Output, final: bool) -> bool:
        """Whether output is published at once. What leaves in order takes everything before it along."""
        if output.uid in self._waiting:
            return False
        return self._committers[output.uid].in_order or (not output.released and (final or output.checkpoint is None))

    def _settle(self, outputs: list[Output]) -> int:
        """Forget output that is visible. What is lost, and what must not overtake it, begins its way again; gives how
        much was lost."""
        lost: dict[str, list[Any]] = {}
        with self._changing:
            for output in outputs:
                if self._lost.pop(id(output.committable), None) is None:
                    del self._outputs[output.number]
                    self.promises.keep(output)
                else:
                    lost.setdefault(output.uid, []).append(output.committable)
        for uid, committables in lost.items():
            own = [output for output in self._outputs.values() if output.uid == uid]
            parts = self._committers[uid].again([output.part for output in own], committables)
            with self._changing:
                for output, part in zip(own, parts, strict=True):
                    if part is not None:
                        output.part, output.committable = part, None
                        output.checkpoint, output.released = None, False
        return sum(map(len, lost.values()))

    def _hand_out(self, uid: str, parts: list[Any]) -> None:
        for part in parts:
            number = next(self._numbers)
            self._outputs[number] = Output(number, uid, part)

    # -- checkpoints

    def at_start(self) -> dict[str, Any]:
        """What to :meth:`restore` to begin from the beginning."""
        return {uid: {"staged": staged, "committables": []} for uid, staged in self._empty.items()}

    def take(self, checkpoint: int, commits: bool = True, ends_job: bool = False) -> dict[str, Any]:
        """What a checkpoint of the last sealed step holds of the sinks; :meth:`precommit` makes it what is stored.

        Output of checkpoints that were given up, or is not visible yet, is in it again.

        :param commits: whether its completion publishes; that of a savepoint does not, and without checkpoints nothing
            else would
        :param ends_job: whether no further checkpoint comes after it
        """
        if commits:
            self._last_is_taken = self._final or ends_job
            for uid, committer in self._committers.items():
                # Also where sealed steps are published at once: some sinks complete their output at checkpoints only.
                self._hand_out(uid, committer.due(at_checkpoint=True))
            for output in self._outputs.values():
                if output.checkpoint is None:
                    output.checkpoint = checkpoint
        return {
            uid: {
                "staged": committer.snapshot(),
                "due": [[number, output.part] for number, output in self._outputs.items() if output.uid == uid],
            }
            for uid, committer in self._committers.items()
        }

    def precommit(self, data: SinkData) -> dict[str, Any]:
        """Make everything ready for a checkpoint to be written, and give what it stores. Runs alongside the steps.

        1. pre-commit what an earlier checkpoint has not
        2. make durable what stays staged

        What has become visible since the checkpoint was taken is left out.
        """
        found = {uid: self._outputs_in(data[uid]) for uid in data}
        made = self._precommit([output for outputs in found.values() for output in outputs])
        for uid, committer in self._committers.items():
            if uid in data:
                committer.make_durable(data[uid]["staged"])
        return {
            uid: {"staged": data[uid]["staged"], "committables": [made[output.number] for output in outputs]}
            for uid, outputs in found.items()
        }

    def _outputs_in(self, held: Any) -> list[Output]:
        """Those of a checkpoint just taken that are not visible yet."""
        with self._changing:
            found = (self._outputs.get(number) for number, _ in held["due"])
            return [output for output in found if output is not None]

    def _precommit(self, outputs: list[Output]) -> dict[int, Any]:
        """Pre-commit what is not; gives the committables by number. Output that begins its way again meanwhile needs
        another one later, but this one holds its rows as well."""
        made: dict[int, Any] = {}
        with self._precommitting:
            for uid, committer in self._committers.items():
                own = [output for output in outputs if output.uid == uid]
                with self._changing:
                    parts = [output.part for output in own if output.committable is None]
                    made.update((o.number, o.committable) for o in own if o.committable is not None)
                own = [output for output in own if output.number not in made]
                if not own:
                    continue
                turns: dict[int, list[tuple[Output, Any]]] = {}
                for output, part in zip(own, parts, strict=True):
                    turns.setdefault(committer.turn(part), []).append((output, part))
                try:
                    for turn in sorted(turns):
                        made.update(self._make_ready(uid, turns[turn]))
                    self._storage.check_if_reachable()
                except Fenced:
                    # The new driver may have looked for what this one left before all of it was there. No checkpoint
                    # names it, and none will; a system outside might keep it open for ever.
                    with self._changing:
                        for output in own:
                            output.committable = None
                    raise
                finally:
                    committer.sweep(self._not_visible(uid).committables)
        return made

    def _make_ready(self, uid: str, outputs: list[tuple[Output, Any]]) -> dict[int, Any]:
        """Pre-commit these parts of a sink at the same time."""
        committer = self._committers[uid]
        parts = [part for _, part in outputs]
        committables = self._call(uid, "prepare", committer.precommitter(), parts, committer.weight)
        with self._changing:
            for (output, part), committable in zip(outputs, committables, strict=True):
                if output.part is part:
                    output.committable = committable
        return {output.number: committable for (output, _), committable in zip(outputs, committables, strict=True)}

    def are_full(self) -> bool:
        """Whether so much waits for a checkpoint to complete that no further step may begin: if checkpoints fail, the
        job slows down, and does not fill the disk."""
        waiting = sum(self._committers[o.uid].weight(o.part) for o in self._outputs.values() if o.uid in self._waiting)
        waiting += sum(self._committers[uid].staged_size() for uid in self._waiting)
        return self._limit.is_passed(waiting)

    def _call(
        self,
        uid: str,
        what: str,
        function: Callable[[Any], Any],
        items: list[Any],
        weight: Callable[[Any], int] | None = None,
    ) -> list[Any]:
        what = f"{what} the output of '{self._plan.nodes[self._nodes[uid]].name}'"
        return self.calls.on_each(what, function, items, weight)

    def precommitted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as a checkpoint stores it. Runs alongside the steps."""
        return with_sink_data(snapshot, self.precommit(snapshot.committables()))

    def portable(self, snapshot: Snapshot, commits: bool) -> Snapshot:
        """The snapshot for a savepoint, which outlives what is staged. Runs alongside the steps.

        What an earlier checkpoint has released is published and left out: it must not come from the savepoint again.

        :param commits: whether its completion publishes. What it holds is then pre-committed, as in a checkpoint, so
            that a job that starts from it can tell what has been published
        """
        data = snapshot.committables()
        outputs = [output for held in data.values() for output in self._outputs_in(held)]
        with self._changing:
            released = [output for output in outputs if output.released]
            ready = [(output.uid, output.committable) for output in released]
            # What a checkpoint holds that is not complete may be published by it.
            due = [o for o in outputs if o not in released and (commits or o.checkpoint is not None)]
        if self.publish(ready, beside=True):
            raise SnapshotError("output of an earlier checkpoint was aborted, and is written again: try once more")
        self.promises.make(snapshot.checkpoint_id, due)
        made = self._precommit(due)
        stored = {}
        for uid, held in data.items():
            committer, own = self._committers[uid], [output for output in outputs if output.uid == uid]
            parts = [output.part for output in own if output not in released and output not in due]
            committables = [made[output.number] for output in own if output in due]
            stored[uid] = {
                "staged": committer.portable(held["staged"], parts),
                "committables": committer.portable_committables(committables),
            }
        return with_sink_data(snapshot, stored)

    def completed(self, checkpoint: int) -> list[tuple[str, Any]]:
        """What is to be published now that a checkpoint has completed: :meth:`publish`, then :meth:`published`."""
        self._check_end(checkpoint)
        held = [o for o in self._outputs.values() if o.checkpoint is not None and o.checkpoint <= checkpoint]
        ready = [output for output in held if not output.released]
        with self._changing:  # a savepoint publishes all of it or none: some systems are handed it as a whole
            for output in ready:
                output.released = True
        return [(output.uid, output.committable) for output in ready]

    def publish(
        self, ready: list[tuple[str, Any]], recovering: bool = False, beside: bool = False
    ) -> list[tuple[str, Any]]:
        """Make output visible. Runs alongside the steps; may be repeated. Gives what is lost.

        :param recovering: whether the job goes back to a checkpoint, and this is the output that it holds
        :param beside: whether the publisher does the same in its turn, so that nothing is broken off if it fails here
        """
        found = []
        with nullcontext() if beside else self._turns.together({uid for uid, _ in ready}):
            for uid, committer in self._committers.items():
                own = [committable for owner, committable in ready if owner == uid]
                if own:
                    turn = self._turns.taken(uid, recovering, beside) if committer.in_order else nullcontext()
                    with turn:
                        lost = committer.publish(own, partial(self._call, uid, "publish"), recovering)
                    found += [(uid, committable) for committable in lost]
        self._lost.update((id(committable), committable) for _, committable in found)
        return found

    def published(self, checkpoint: int) -> None:
        """What was ready at the completion of a checkpoint is visible, or lost."""
        lost = self._settle(
            [
                output
                for output in self._outputs.values()
                if output.released and output.checkpoint is not None and output.checkpoint <= checkpoint
            ]
        )
        self.tidy()
        if lost:
            self._check_end(checkpoint)

    def _check_end(self, checkpoint: int) -> None:
        """What begins its way again needs another checkpoint. After the last one, the job must go back to it."""
        again = sum(output.checkpoint is None for output in self._outputs.values())
        if self._last_is_taken and again:
            raise JobExecutionError(
                f"{again} transactions were aborted before they could be committed, after the last checkpoint had been "
                f"taken: the job goes back to checkpoint {checkpoint}, which holds their rows, to write them again"
            )

    def check(self, data: SinkData, pointer: str) -> None:
        """Look whether the sinks may follow what a snapshot names, before anything is done.

        :param pointer: where the snapshot is. Next to it may be what its job has staged
        :raises SnapshotError: it names what is none of theirs
        """
        also = [join(parent(folder_of(pointer)), OUTPUT)]
        for uid, committer in self._committers.items():
            held = data.get(uid)
            name = self._plan.nodes[self._nodes[uid]].name
            try:
                problem = None if held is None else next(committer.strays(held, also), None)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                problem = f"it is not what this sink writes ({type(error).__name__} {error})"
            if problem is not None:
                raise SnapshotError(f"{pointer} can't be restored. Output of '{name}': {problem}")

    def restore(self, data: SinkData, epoch: int | None = None) -> None:
        """Go back to a checkpoint, and publish again what it had pre-committed. No step may be under way.

        1. stop what is still being pre-committed or published
        2. go back; from here on only what the checkpoint names can become visible
        3. publish what it names; what was published before is left alone
        4. remove what nobody needs

        A sink that is not in the checkpoint begins from the beginning; what it has published since is taken back too.

        :param epoch: of the driver that took the checkpoint, if it was of this lineage
        """
        self.calls.stop()
        self._outputs.clear()
        self._final = self._last_is_taken = False
        for uid, committer in self._committers.items():
            held = data.get(uid) or self.at_start()[uid]
            needed = [held_of(held), self._not_visible(uid), *self._retained(uid)]
            committer.restore(held["staged"], needed, epoch)
            found = self.publish([(uid, committable) for committable in held["committables"]], recovering=True)
            lost = [committable for _, committable in found]
            self.promises.were_kept(uid, [each for each in held["committables"] if each not in lost])
            if lost:
                self._hand_out(uid, committer.again(lost, lost))
        self._turns.begin_again()
        self._lost.clear()
        self.tidy(idle=True)

    def go_on(self) -> None:
        """Without checkpoints nothing is gone back to: what is not visible goes with the next step. No thread may be
        publishing."""
        for output in self._outputs.values():
            output.checkpoint, output.released = None, False
        self._turns.begin_again()

    def tidy(self, idle: bool = False) -> None:
        """Remove what was staged and is needed neither by a checkpoint nor to be published."""
        for uid, committer in self._committers.items():
            committer.tidy([self._not_visible(uid), *self._retained(uid)], idle)

    def _not_visible(self, uid: str) -> Held:
        own = [output for output in list(self._outputs.values()) if output.uid == uid]
        owed = self.promises.to_keep(uid)
        ready = [output.committable for output in own + owed if output.committable is not None]
        return Held(None, [output.part for output in own], ready)

    def _retained(self, uid: str) -> list[Held]:
        return [held_of(held) for data in self._records.sink_data() if (held := data.get(uid))]

    def give_up(self) -> None:
        """The job ends, and does not wait for what is under way: nothing else may follow that."""
        self._turns.break_off(self._committers)
        self.calls.give_up()

    def close(self, discard: bool) -> None:
        """The job has ended. ``discard``: nobody will resume it."""
        if discard:
            try:
                self._storage.check()
            except (Fenced, OSError):
                discard = False  # another driver may have the job, and need what this one staged
        for uid, committer in self._committers.items():
            committer.close(discard and not self.promises.to_keep(uid))
