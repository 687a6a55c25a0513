"""What a job shows: printed lines, collected records, metrics, warnings, reports. Only sealed steps are shown."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from beadline.api.metrics import MetricTotals
from beadline.graph.plan import Plan
from beadline.graph.specs import CollectSpec
from beadline.master.reporting.news import NewsStream, StepReport
from beadline.master.reporting.progress import Progress
from beadline.master.upkeep.truth import Truth
from beadline.runtime.messages import SubtaskAck, TaskAck
from beadline.shown_text import printable

if TYPE_CHECKING:
    from beadline.master.execution import Sealed

_LOG = logging.getLogger("beadline")


def show(pieces: Iterable[tuple[bool, str]]) -> None:
    """Print what tasks printed: pieces of text, with whether they are of print sinks. What user code prints is passed
    on as it is. What sinks print is made of records, which come from anywhere: on a terminal their control characters
    are made visible; files and programs get them as they are."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    text = "".join(printable(text) if by_sink and on_terminal else text for by_sink, text in pieces)
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()


class Results:
    """Shows what sealed steps give; with ``hold_collected`` records wait for a checkpoint, so that none comes twice."""

    def __init__(
        self,
        plan: Plan,
        on_collected: Callable[[str, list[Any]], None] | None,
        news: NewsStream,
        hold_collected: bool,
    ) -> None:
        self._plan = plan
        self._on_collected = on_collected
        self._news = news
        self._hold = hold_collected
        self._held: list[tuple[str, list[Any]]] = []
        self._taken: dict[int, int] = {}
        self._warned: set[str] = set()
        self.metrics = MetricTotals()
        self.progress = Progress(plan)
        self.progress.steps.extend(event for event in news.history if isinstance(event, StepReport))

    def execution_begins(self, step: int) -> None:
        """The new execution gives again what was held. It goes on after this step."""
        self._held.clear()
        self._taken.clear()
        self.progress.execution_begins(step)

    def sealed(self, acks: list[TaskAck], subtasks: list[SubtaskAck]) -> None:
        show(piece for task in sorted(acks, key=lambda task: (task.level, task.partition)) for piece in task.printed)
        for ack in subtasks:
            node = self._plan.nodes[ack.node]
            if ack.collected and isinstance(node.spec, CollectSpec):
                self._held.append((node.spec.collector, ack.collected))
            if ack.metrics is not None:
                self.metrics.merge(ack.metrics)
            for warning in ack.warnings:
                self.warn(warning)
            for name in ack.changed_fields:
                self.warn(
                    f"operator '{node.name}': the field {name} changed while records were processed. "
                    "Fields are not state: they are "
                    "lost with the worker and not restored after a failure. Keep it in a state from "
                    "runtime_context.get_state(…), or, if it is a cache or a connection, set it up in open()."
                )
        if not self._hold:
            self._hand_over(len(self._held))

    def taken(self, checkpoint: int) -> None:
        """A checkpoint covers what is held now."""
        self._taken[checkpoint] = len(self._held)

    def completed(self, checkpoint: int) -> None:
        covered = self._taken.pop(checkpoint, 0)
        self._taken = {id: max(0, count - covered) for id, count in self._taken.items() if id > checkpoint}
        self._hand_over(covered)

    def _hand_over(self, count: int) -> None:
        ready, self._held = self._held[:count], self._held[count:]
        if self._on_collected is not None:
            for collector, records in ready:
                self._on_collected(collector, records)

    def report(self, sealed: Sealed, truth: Truth, at: int) -> None:
        """Tell watchers about a sealed step."""
        for node_id, name, size in truth.book.large_unions():
            self.warn(
                f"operator '{self._plan.nodes[node_id].name}': union list state '{name}' has grown to {size >> 20} MB, "
                "and every subtask reads all of it before every step. Use get_list_state(), or keyed state."
            )
        watermarks = [
            s.watermark for s in sealed.subtasks if s.watermark is not None and not self._plan.nodes[s.node].is_source
        ]
        last = len(self._plan.levels) - 1
        report = StepReport(
            self._plan.job_name,
            sealed.header.step,
            sealed.records,
            truth.records,
            sealed.seconds,
            truth.keys,
            sum(s.touched for s in sealed.subtasks),
            truth.book.size,
            min(watermarks, default=None),
            sealed.tries,
            sealed.header.final,
            {ack.partition: ack.executor for ack in sealed.acks if ack.level == last},
            {ack.partition: ack.worker for ack in sealed.acks if ack.level == last},
            at,
        )
        self.progress.sealed(sealed, report)
        self._news.tell(report)

    def warn(self, text: str) -> None:
        """Say something to the user, once."""
        if text not in self._warned:
            self._warned.add(text)
            _LOG.warning("%s", text)
