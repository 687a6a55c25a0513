"""The sinks of a job on the driver: what they have staged, and what waits for which checkpoint.

Without checkpoints, and in at-least-once mode, what a sink finds complete is published when its step is sealed. In
exactly-once mode it becomes part of the next checkpoint and is published when that has completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    """

    def __init__(self, plan: Plan, cluster: Cluster, group: str, job_id: str, with_checkpoints: bool) -> None:
        self._plan = plan
        self._cluster = cluster
        self._group = group
        self._with_checkpoints = with_checkpoints
        self._committers: dict[str, Committer] = {}
        self._nodes: dict[str, int] = {}
        # What waits to be published, and since which checkpoint.
        self._waiting: list[tuple[int, str, Any]] = []
        for node in plan.nodes.values():
            if isinstance(node.spec, SinkSpec):
                sink: StagedSink = node.spec.sink
                sink.prepare(job_id)
                self._committers[node.uid] = sink.committer()
                self._nodes[node.uid] = node.id

    def __repr__(self) -> str:
        return f"<Sinks: {len(self._committers)}, {len(self._waiting)} committables wait>"

    def sealed(self, subtasks: list[SubtaskAck], now: int, final: bool) -> None:
        """A step was sealed. Publishes at once what waits for no checkpoint."""
        for uid, committer in self._committers.items():
            committer.sealed([p for s in subtasks if s.node == self._nodes[uid] for p in s.staged], now, final)
            if not self._with_checkpoints:
                self._publish([(uid, committable) for committable in committer.due(at_checkpoint=False)])

    # -- checkpoints

    def at_start(self) -> dict[str, Any]:
        """What to :meth:`restore` to begin from the beginning."""
        return {uid: {"staged": c.snapshot(), "committables": []} for uid, c in self._committers.items()}

    def take(self, checkpoint: int) -> dict[str, Any]:
        """What a checkpoint of the last sealed step holds of the sinks.

        Committables of checkpoints that were given up are in it again.
        """
        data = {}
        for uid, committer in self._committers.items():
            if self._with_checkpoints:
                self._waiting += [(checkpoint, uid, c) for c in committer.due(at_checkpoint=True)]
            waiting = [committable for _, owner, committable in self._waiting if owner == uid]
            data[uid] = {"staged": committer.snapshot(), "committables": waiting}
        return data

    def make_durable(self, data: SinkData) -> None:
        """Runs beside the steps."""
        for uid, committer in self._committers.items():
            if uid in data:
                committer.make_durable(data[uid]["staged"], data[uid]["committables"])

    def completed(self, checkpoint: int) -> list[tuple[str, Any]]:
        """What may be published now that a checkpoint has completed. Hand it to :meth:`publish`."""
        ready = [(uid, c) for taken, uid, c in self._waiting if taken <= checkpoint]
        self._waiting = [entry for entry in self._waiting if entry[0] > checkpoint]
        return ready

    def publish(self, ready: list[tuple[str, Any]]) -> None:
        """Runs beside the steps; may be repeated."""
        self._publish(ready)

    def restore(self, data: SinkData) -> None:
        """Go back to a checkpoint, and publish again what it had pre-committed."""
        self._waiting.clear()
        for uid, committer in self._committers.items():
            if uid in data:
                committables = data[uid]["committables"]
                committer.restore(data[uid]["staged"], committables)
                self._publish([(uid, committable) for committable in committables])

    def _publish(self, ready: list[tuple[str, Any]]) -> None:
        for uid, committer in self._committers.items():
            own = [committable for owner, committable in ready if owner == uid]
            if own:
                name = self._plan.nodes[self._nodes[uid]].name
                self._cluster.in_group(self._group, f"{self._plan.job_name}: publish the output of '{name}'")
                self._cluster.run_each(committer.publisher(), own)

    def close(self, discard: bool) -> None:
        """The job has ended. ``discard``: nobody will resume it."""
        for committer in self._committers.values():
            committer.close(discard)
