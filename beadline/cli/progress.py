"""What is known of a job so far, from its events: the numbers that a view or a line of a log shows."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from beadline.cli.output import duration, number, size, watermark
from beadline.master.reporting.news import (
    CheckpointChanged,
    ExecutionFailed,
    ExecutionStarted,
    News,
    StatusChanged,
    StepReport,
)

# Rates are over this time, so that one long step does not make them jump.
_RATE_SECONDS = 5.0
_KEPT_STEPS = 20
_KEPT_CHECKPOINTS = 3


@dataclass
class JobProgress:
    """One job, fed with its events.

    :ivar lag: how many records wait to be read, if its sources can say; set from outside
    :ivar notes: what a person should see before it is gone, newest last
    """

    name: str
    job_id: str
    status: str = "CREATED"
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    steps: deque[StepReport] = field(default_factory=lambda: deque(maxlen=_KEPT_STEPS))
    checkpoints: dict[int, CheckpointChanged] = field(default_factory=dict)
    completed: int = 0
    failed_checkpoints: int = 0
    restarts: int = 0
    reruns: int = 0
    last_error: str | None = None
    lag: int | None = None
    first_step_at: float | None = None
    _sealed: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=1000))

    def add(self, event: News) -> None:
        match event:
            case StepReport():
                self._add_step(event)
            case StatusChanged():
                self.status = event.status
                if event.state == "ending":
                    self.ended = time.monotonic()
            case CheckpointChanged():
                self._add_checkpoint(event)
            case ExecutionFailed():
                self.last_error = event.error
            case ExecutionStarted():
                self.restarts += event.attempt > 1
                self._sealed.clear()

    def _add_step(self, step: StepReport) -> None:
        now = time.monotonic()
        if self.first_step_at is None:
            self.first_step_at = now - step.seconds
        if not self._sealed:
            self._sealed.append((now - step.seconds, 0))
        self._sealed.append((now, step.records))
        while len(self._sealed) > 2 and now - self._sealed[1][0] > _RATE_SECONDS:
            self._sealed.popleft()
        self.steps.append(step)
        self.reruns += step.tries - 1

    def _add_checkpoint(self, change: CheckpointChanged) -> None:
        self.completed += change.phase == "completed"
        self.failed_checkpoints += change.phase == "failed"
        before = self.checkpoints.get(change.id)
        if change.phase == "published" and before is not None:
            return  # it was complete before its output was
        self.checkpoints[change.id] = change
        while len(self.checkpoints) > _KEPT_CHECKPOINTS:
            del self.checkpoints[min(self.checkpoints)]

    # -- in words

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.started

    @property
    def rate(self) -> float:
        """Records per second, over the last seconds."""
        if len(self._sealed) < 2:
            return 0.0
        began = self._sealed[0][0]
        until = self._sealed[-1][0] if self.ended else max(self._sealed[-1][0], time.monotonic() - _RATE_SECONDS / 2)
        return sum(records for _, records in list(self._sealed)[1:]) / max(until - began, 1e-3)

    @property
    def last(self) -> StepReport | None:
        return self.steps[-1] if self.steps else None

    def words(self) -> dict[str, str]:
        """The numbers of now, by what they are called."""
        last = self.last
        shown = {
            "step": "–" if last is None else number(last.step),
            "records": "–" if last is None else number(last.total_records),
            "records/s": number(self.rate),
            "lag": number(self.lag),
            "watermark": "–" if last is None else watermark(last.watermark),
            "keys": "–" if last is None else number(last.keys),
            "state": "–" if last is None else size(last.state_bytes),
            "checkpoints": f"{self.completed}"
            + (f", {self.failed_checkpoints} failed" if self.failed_checkpoints else ""),
            "restarts": str(self.restarts),
            "steps run again": str(self.reruns),
        }
        return {name: text for name, text in shown.items() if name != "lag" or self.shows_lag}

    @property
    def shows_lag(self) -> bool:
        """What waited when it was asked last says nothing of a job that has ended."""
        return self.lag is not None and self.ended is None

    def line(self) -> str:
        """All in a line of text, for logs; the name of the job is left to whoever knows how many there are."""
        words = self.words()
        told = [
            f"step {words['step']}",
            f"{words['records']} records",
            f"{words['records/s']} records/s",
            *([f"lag {words['lag']}"] if self.shows_lag else []),
            f"watermark {words['watermark']}",
            f"{words['keys']} keys",
            f"{words['state']} of state",
            f"{words['checkpoints']} checkpoints",
        ]
        told += [f"{self.restarts} restarts"] if self.restarts else []
        told += [f"{self.reruns} steps run again"] if self.reruns else []
        running = "" if self.status == "RUNNING" else f"{self.status}, "
        return f"{duration(self.seconds * 1000)}: {running}{', '.join(told)}"
