"""How far the playground is: what the view shows, and what the story waits for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from beadline.cli.playground.outcome import Outcome


@dataclass
class Act:
    """One part of the story.

    :ivar took: seconds, when it is over
    """

    title: str
    began: float | None = None
    took: float | None = None
    result: str = ""

    @property
    def running(self) -> bool:
        return self.began is not None and self.took is None

    def begin(self) -> None:
        self.began = time.monotonic()

    def end(self, result: str) -> None:
        assert self.began is not None
        self.took, self.result = time.monotonic() - self.began, result


@dataclass
class Progress:
    """What is known so far of the job, from its own events and from what it has published.

    :ivar steps: steps that were sealed, over all drivers
    :ivar reruns: steps that had to be run again
    :ivar restarts: executions after the first one of a driver
    :ivar resumed: steps that a checkpoint or savepoint brought along, for the execution that runs
    """

    acts: list[Act]
    outcome: Outcome = field(default_factory=Outcome)
    notes: list[str] = field(default_factory=list)
    steps: int = 0
    reruns: int = 0
    restarts: int = 0
    starts: int = 0
    checkpoints: int = 0
    last: dict[str, Any] | None = None
    rate: float = 0.0
    driver: str = "none yet"
    dashboard: str = ""

    def heard(self, event: dict[str, Any]) -> None:
        """The job tells something."""
        kind = event["event"]
        if kind == "StepReport":
            self.steps += 1
            self.reruns += event["tries"] - 1
            self._measure(event)
            self.last = event
        elif kind == "ExecutionStarted":
            self.starts += 1
            self.restarts += event["attempt"] > 1
            self.last = None
        elif kind == "CheckpointChanged" and event["phase"] == "completed":
            self.checkpoints += 1

    @property
    def workers(self) -> list[int]:
        """The processes that did the last step."""
        return sorted(set(map(int, self.last["workers"].values()))) if self.last else []

    def _measure(self, event: dict[str, Any]) -> None:
        """Clicks per second, smoothed: steps are short."""
        if self.last is None or event["at"] <= self.last["at"]:
            return
        now = event["records"] * 1000 / (event["at"] - self.last["at"])
        self.rate = now if not self.rate else 0.8 * self.rate + 0.2 * now
