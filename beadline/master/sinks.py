"""The sinks of a job on the driver: what they have staged, and what waits for which checkpoint.

Without checkpoints, and in at-least-once mode, what a sink finds complete is published when its step is sealed. In
exactly-once mode it becomes part of the next checkpoint and is published when that has completed. Until it is visible,
every further checkpoint holds it too: a newer one may complete, and be the one that is restored, before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import xxhash

from beadline.checkpoint.snapshot import Snapshot
from beadline.connectors.sink import Committer, StagedSink
from beadline.graph.plan import Plan
from beadline.graph.specs import SinkSpec
from beadline.master.spark import Cluster
from beadline.runtime.messages import SubtaskAck

# By the sink's uid: {"staged": …, "committables": […]}.
SinkData = Mapping[str, Any]


class Sinks:
    """All committers of a job.

    :param with_checkpoints: whether publishing waits for checkpoints
    :param check: raises if another driver has the job; asked before anything is published without a checkpoint
    :param epoch: of the driver's lease on the job
    :ivar retained: gives the data of the checkpoints that the job may go back to
    """

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        group: str,
        job_id: str,
        with_checkpoints: bool,
        check: Callable[[], None] = lambda: None,
        epoch: int = 0,
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        # A group of its own: a step that is run again cancels the jobs of its group, and publishing goes on.
        self._group = f"{group}-publish"
        self._with_checkpoints = with_checkpoints
        self._check = check
        self.retained: Callable[[], Iterable[SinkData]] = lambda: ()
        self._committers: dict[str, Committer] = {}
        self._nodes: dict[str, int] = {}
        # What waits to be published or is being published, and since which checkpoint.
        self._waiting: list[tuple[int, str, Any]] = []
        self._publishing: list[tuple[int, str, Any]] = []
        for node in plan.nodes.values():
            if isinstance(node.spec, SinkSpec):
                sink: StagedSink = node.spec.sink
                # Two sinks of one job may write to the same place.
                sink.prepare(xxhash.xxh3_128_hexdigest(f"{job_id}|{node.uid}".encode()), epoch)
                self._committers[node.uid] = sink.committer()
                self._nodes[node.uid] = node.id
        self._empty = {uid: committer.snapshot() for uid, committer in self._committers.items()}

    def __repr__(self) -> str:
        return (
            f"<Sinks: {len(self._committers)}, {len(self._waiting)} committables wait, {len(self._publishing)} are "
            "being published>"
        )

    def __len__(self) -> int:
        return len(self._committers)

    def sealed(self, subtasks: list[SubtaskAck], now: int, final: bool) -> None:
        """A step was sealed. Publishes at once what waits for no checkpoint."""
        for uid, committer in self._committers.items():
            committer.sealed([p for s in subtasks if s.node == self._nodes[uid] for p in s.staged], now, final)
            if not self._with_checkpoints:
                due = [(uid, committable) for committable in committer.due(at_checkpoint=False)]
                if due:
                    self._check()
                    self.publish(due)
        if not self._with_checkpoints:
            if final and self._waiting:  # of checkpoints that were given up; there may be none any more
                self.publish([(uid, committable) for _, uid, committable in self._waiting])
                self._waiting.clear()
            self.tidy()

    # -- checkpoints

    def at_start(self) -> dict[str, Any]:
        """What to :meth:`restore` to begin from the beginning."""
        return {uid: {"staged": staged, "committables": []} for uid, staged in self._empty.items()}

    def take(self, checkpoint: int, commits: bool = True) -> dict[str, Any]:
        """What a checkpoint of the last sealed step holds of the sinks.

        Committables of checkpoints that were given up, or are not visible yet, are in it again.

        :param commits: whether its completion publishes; that of a savepoint does not, and without checkpoints nothing
            else would
        """
        data = {}
        for uid, committer in self._committers.items():
            # Also where sealed steps are published at once: some sinks complete their output at checkpoints only.
            if commits:
                self._waiting += [(checkpoint, uid, c) for c in committer.due(at_checkpoint=True)]
            data[uid] = {"staged": committer.snapshot(), "committables": self._not_visible(uid)}
        return data

    def _not_visible(self, uid: str) -> list[Any]:
        return [c for entries in (self._publishing, self._waiting) for _, owner, c in entries if owner == uid]

    def make_durable(self, data: SinkData) -> None:
        """Runs beside the steps."""
        for uid, committer in self._committers.items():
            if uid in data:
                committer.make_durable(data[uid]["staged"], data[uid]["committables"])

    def portable(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot for a savepoint, which outlives what is staged. Runs beside the steps."""
        operators = []
        for operator in snapshot.operators:
            held = operator.committables
            if operator.uid in self._committers and held is not None:
                staged, due = self._committers[operator.uid].portable(held["staged"], held["committables"])
                operator = replace(operator, committables={"staged": staged, "committables": due})
            operators.append(operator)
        return replace(snapshot, operators=tuple(operators))

    def completed(self, checkpoint: int) -> list[tuple[str, Any]]:
        """What is to be published now that a checkpoint has completed: :meth:`publish`, then :meth:`published`."""
        ready = [entry for entry in self._waiting if entry[0] <= checkpoint]
        self._waiting = [entry for entry in self._waiting if entry[0] > checkpoint]
        self._publishing += ready
        return [(uid, committable) for _, uid, committable in ready]

    def publish(self, ready: list[tuple[str, Any]]) -> None:
        """Runs beside the steps; may be repeated."""
        for uid, committer in self._committers.items():
            own = [committable for owner, committable in ready if owner == uid]
            if own:
                name = self._plan.nodes[self._nodes[uid]].name
                self._cluster.in_group(self._group, f"{self._plan.job_name}: publish the output of '{name}'")
                self._cluster.run_each(committer.publisher(), own)

    def published(self, checkpoint: int) -> None:
        """What was ready at the completion of a checkpoint is visible."""
        self._publishing = [entry for entry in self._publishing if entry[0] > checkpoint]
        self.tidy()

    def restore(self, data: SinkData) -> None:
        """Go back to a checkpoint, and publish again what it had pre-committed. No step may be under way.

        A sink that the checkpoint knows nothing of begins anew.
        """
        # A task that still publishes what is taken back here would bring it back.
        self._cluster.cancel(self._group)
        self._cluster.wait_until_quiet(self._group)
        self._waiting.clear()
        self._publishing.clear()
        for uid, committer in self._committers.items():
            held = data.get(uid) or self.at_start()[uid]
            committer.restore(held["staged"], held["committables"])
            self.publish([(uid, committable) for committable in held["committables"]])
        self.tidy(idle=True)

    def tidy(self, idle: bool = False) -> None:
        """Remove what was staged and is needed neither by a checkpoint nor to be published."""
        retained = list(self.retained())
        for uid, committer in self._committers.items():
            needed = [(held["staged"], held["committables"]) for data in retained if (held := data.get(uid))]
            committer.tidy([(None, self._not_visible(uid)), *needed], idle)

    def close(self, discard: bool) -> None:
        """The job has ended. ``discard``: nobody will resume it."""
        for committer in self._committers.values():
            committer.close(discard)
