"""The sinks of a job on the driver: what they have staged, and what waits for which checkpoint.

Without checkpoints, and in at-least-once mode, what a sink finds complete is published when its step is sealed. In
exactly-once mode it becomes part of the next checkpoint: it is pre-committed before that is written, and published when
it has completed. Until it is visible, every further checkpoint holds it too: a newer one may complete, and be the one
that is restored, before that.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import xxhash

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.ownership.lease import Fenced
from beadline.checkpoint.storage.storage import JobStorage
from beadline.connectors.sink import Committer, Held, StagedSink
from beadline.graph.plan import Plan
from beadline.graph.specs import SinkSpec
from beadline.master.engines.engine import Engine
from beadline.master.snapshots.records import Records
from beadline.runtime.messages import SubtaskAck

# By the sink's uid: {"staged": …, "committables": […]}; of a checkpoint that is not written yet {"staged": …, "due":
# [[number, part], …]}.
SinkData = Mapping[str, Any]

# Up to this many bytes the driver pre-commits itself, a few parts at a time.
_LIGHT = 32 << 20
_THREADS = 8


@dataclass(eq=False)
class _Output:
    """A part on its way: handed out, pre-committed, released, and visible, which is when it is forgotten here.

    :ivar checkpoint: the first one that holds it
    :ivar committable: what pre-committing it gave
    :ivar released: whether a checkpoint that holds it has completed, so that it may be published
    """

    number: int
    uid: str
    part: Any
    checkpoint: int | None = None
    committable: Any = None
    released: bool = False


class Sinks:
    """All committers of a job.

    :param storage: of the job; knows whether another driver has it, and is asked before anything is published without
        a checkpoint: nothing else keeps a driver that lost its job from publishing
    :param records: the checkpoints that the job may go back to
    :param with_checkpoints: whether publishing waits for checkpoints
    """

    def __init__(
        self, plan: Plan, engine: Engine, storage: JobStorage, records: Records, with_checkpoints: bool
    ) -> None:
        self._plan = plan
        self._engine = engine
        # A group of its own: a step that is run again cancels the tasks of its group, and publishing goes on.
        self._group = f"beadline-{storage.job_id}-publish"
        self._with_checkpoints = with_checkpoints
        self._storage = storage
        self._records = records
        self._committers: dict[str, Committer] = {}
        self._nodes: dict[str, int] = {}
        self._outputs: dict[int, _Output] = {}
        self._numbers = itertools.count(1)
        # What a savepoint names that the job was to stop with, until it is visible: whoever starts from there needs it,
        # even if this job fails before it has published it, and goes on from an earlier checkpoint.
        self._promised: dict[int, _Output] = {}
        # Checkpoints that are written at the same time hold the same output: it is pre-committed once.
        self._precommitting = threading.Lock()
        for node in plan.nodes.values():
            if isinstance(node.spec, SinkSpec):
                sink: StagedSink = node.spec.sink
                # Two sinks of one job may write to the same place.
                sink.prepare(xxhash.xxh3_128_hexdigest(f"{storage.job_id}|{node.uid}".encode()), storage.epoch)
                self._committers[node.uid] = sink.committer()
                self._nodes[node.uid] = node.id
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
        """A step was sealed. Publishes at once what waits for no checkpoint."""
        for uid, committer in self._committers.items():
            committer.sealed([p for s in subtasks if s.node == self._nodes[uid] for p in s.staged], now, final)
            if not self._with_checkpoints:
                self._hand_out(uid, committer.due(at_checkpoint=False))
        if not self._with_checkpoints:
            self._publish_at_once(final)
            self.tidy()

    def _publish_at_once(self, final: bool) -> None:
        """Publish what no checkpoint holds; at the end also what only abandoned checkpoints hold."""
        ready = {
            number: output
            for number, output in self._outputs.items()
            if not output.released and (final or output.checkpoint is None)
        }
        if ready:
            self._storage.check_if_reachable()
            self._precommit(list(ready.values()))
            self.publish([(output.uid, output.committable) for output in ready.values()])
            for number in ready:
                del self._outputs[number]

    def _hand_out(self, uid: str, parts: list[Any]) -> None:
        for part in parts:
            number = next(self._numbers)
            self._outputs[number] = _Output(number, uid, part)

    # -- checkpoints

    def at_start(self) -> dict[str, Any]:
        """What to :meth:`restore` to begin from the beginning."""
        return {uid: {"staged": staged, "committables": []} for uid, staged in self._empty.items()}

    def take(self, checkpoint: int, commits: bool = True) -> dict[str, Any]:
        """What a checkpoint of the last sealed step holds of the sinks; :meth:`precommit` makes it what is stored.

        Output of checkpoints that were given up, or is not visible yet, is in it again.

        :param commits: whether its completion publishes; that of a savepoint does not, and without checkpoints nothing
            else would
        """
        if commits:
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
        self._precommit([output for outputs in found.values() for output in outputs])
        for uid, committer in self._committers.items():
            if uid in data:
                committer.make_durable(data[uid]["staged"])
        return {
            uid: {"staged": data[uid]["staged"], "committables": [output.committable for output in outputs]}
            for uid, outputs in found.items()
        }

    def _outputs_in(self, held: Any) -> list[_Output]:
        """Those of a checkpoint just taken that are not visible yet."""
        found = (self._outputs.get(number) for number, _ in held["due"])
        return [output for output in found if output is not None]

    def _precommit(self, outputs: list[_Output]) -> None:
        with self._precommitting:
            for uid, committer in self._committers.items():
                own = [output for output in outputs if output.uid == uid and output.committable is None]
                if not own:
                    continue
                try:
                    committables = self._call(
                        uid, "prepare", committer.precommitter(), [output.part for output in own], committer.weight
                    )
                    for output, committable in zip(own, committables, strict=True):
                        output.committable = committable
                finally:
                    committer.sweep(self._not_visible(uid).committables)

    def _call(
        self,
        uid: str,
        what: str,
        function: Callable[[Any], Any],
        items: list[Any],
        weight: Callable[[Any], int] | None = None,
    ) -> list[Any]:
        """Call a function on items: in tasks, or here if they are light.

        A checkpoint must not wait for a slot that a slow step may hold for long.
        """
        if weight is not None and sum(map(weight, items)) <= _LIGHT:
            with ThreadPoolExecutor(min(len(items), _THREADS), "beadline-precommit") as threads:
                return list(threads.map(function, items))
        what = f"{self._plan.job_name}: {what} the output of '{self._plan.nodes[self._nodes[uid]].name}'"
        return self._engine.run_each(function, items, self._group, what)

    def precommitted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as a checkpoint stores it. Runs alongside the steps."""
        return _with(snapshot, self.precommit(snapshot.committables()))

    def portable(self, snapshot: Snapshot, commits: bool) -> Snapshot:
        """The snapshot for a savepoint, which outlives what is staged. Runs alongside the steps.

        What an earlier checkpoint has released is published and left out: it must not come from the savepoint again.

        :param commits: whether its completion publishes. What it holds is then pre-committed, as in a checkpoint, so
            that a job that starts from it can tell what has been published
        """
        data = snapshot.committables()
        outputs = [output for held in data.values() for output in self._outputs_in(held)]
        released = [output for output in outputs if output.released]
        due = [output for output in outputs if output not in released]
        self.publish([(output.uid, output.committable) for output in released])
        if commits:
            self._precommit(due)
            self._promised.update((output.number, output) for output in due)
        stored = {}
        for uid, held in data.items():
            own = [output for output in due if output.uid == uid]
            parts = [] if commits else [output.part for output in own]
            stored[uid] = {
                "staged": self._committers[uid].portable(held["staged"], parts),
                "committables": [output.committable for output in own] if commits else [],
            }
        return _with(snapshot, stored)

    def completed(self, checkpoint: int) -> list[tuple[str, Any]]:
        """What is to be published now that a checkpoint has completed: :meth:`publish`, then :meth:`published`."""
        held = [o for o in self._outputs.values() if o.checkpoint is not None and o.checkpoint <= checkpoint]
        ready = [output for output in held if not output.released]
        for output in ready:
            output.released = True
        return [(output.uid, output.committable) for output in ready]

    def publish(self, ready: list[tuple[str, Any]]) -> None:
        """Runs alongside the steps; may be repeated."""
        for uid, committer in self._committers.items():
            own = [committable for owner, committable in ready if owner == uid]
            if own:
                self._call(uid, "publish", committer.publisher(), own)

    def published(self, checkpoint: int) -> None:
        """What was ready at the completion of a checkpoint is visible."""
        for number, output in list(self._outputs.items()):
            if output.released and output.checkpoint is not None and output.checkpoint <= checkpoint:
                del self._outputs[number]
                self._promised.pop(number, None)
        self.tidy()

    def restore(self, data: SinkData) -> None:
        """Go back to a checkpoint, and publish again what it had pre-committed. No step may be under way.

        1. stop what is still being pre-committed or published
        2. go back; from here on only what the checkpoint names can become visible
        3. publish what it names; what was published before is left alone
        4. remove what nobody needs

        A sink that is not in the checkpoint begins from the beginning.
        """
        self._engine.cancel(self._group)
        self._engine.wait_until_quiet(self._group)
        self._outputs.clear()
        for uid, committer in self._committers.items():
            held = data.get(uid) or self.at_start()[uid]
            committer.restore(held["staged"], [_held(held), self._not_visible(uid), *self._retained(uid)])
            self.publish([(uid, committable) for committable in held["committables"]])
        self.tidy(idle=True)

    def tidy(self, idle: bool = False) -> None:
        """Remove what was staged and is needed neither by a checkpoint nor to be published."""
        for uid, committer in self._committers.items():
            committer.tidy([self._not_visible(uid), *self._retained(uid)], idle)

    def _not_visible(self, uid: str) -> Held:
        own = [output for output in list(self._outputs.values()) if output.uid == uid]
        promised = [output for output in list(self._promised.values()) if output.uid == uid]
        ready = [output.committable for output in own + promised if output.committable is not None]
        return Held(None, [output.part for output in own], ready)

    def _retained(self, uid: str) -> list[Held]:
        return [_held(held) for data in self._records.sink_data() if (held := data.get(uid))]

    def close(self, discard: bool) -> None:
        """The job has ended. ``discard``: nobody will resume it."""
        if discard:
            try:
                self._storage.check_if_reachable()
            except Fenced:
                discard = False  # another driver has the job, and needs what this one staged
        for uid, committer in self._committers.items():
            committer.close(discard and all(output.uid != uid for output in self._promised.values()))


def _held(data: Any) -> Held:
    return Held(data["staged"], [part for _, part in data.get("due", ())], data.get("committables", []))


def _with(snapshot: Snapshot, data: SinkData) -> Snapshot:
    """The snapshot with other data of the sinks."""
    operators = (
        replace(operator, committables=data[operator.uid]) if operator.uid in data else operator
        for operator in snapshot.operators
    )
    return replace(snapshot, operators=tuple(operators))
