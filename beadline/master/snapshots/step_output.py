"""Output that waits for no checkpoint: it is published when its step is sealed, and the next step waits for that.

A thread does it, because a system outside may take any time to answer: meanwhile the job master hears of everything
else, and checkpoints expire, requests are answered, and the job can be told to end.
"""

from __future__ import annotations

import itertools

from beadline.errors import JobExecutionError
from beadline.master.events import StepPublished
from beadline.master.snapshots.sinks import Sinks
from beadline.master.snapshots.waiting import Patience
from beadline.master.snapshots.writing import Writing

# How often what is lost after the last step is written again.
_TRIES = 5


class StepOutput:
    """One step's output at a time."""

    def __init__(self, sinks: Sinks, writing: Writing) -> None:
        self._sinks = sinks
        self._writing = writing
        self._numbers = itertools.count(1)
        self._under_way: int | None = None
        self._step, self._final, self._tries = 0, False, 0
        self._patience: Patience | None = None

    def __repr__(self) -> str:
        return f"<StepOutput of step {self._step}: {'under way' if self.is_under_way else 'visible'}>"

    @property
    def is_under_way(self) -> bool:
        """Whether it is being published, so that no further step may begin."""
        return self._under_way is not None

    def publish(self, step: int, final: bool) -> None:
        """A step was sealed."""
        self._step, self._final, self._tries = step, final, 0
        self._patience = None
        self._publish()

    def _publish(self) -> None:
        outputs = self._sinks.ready_at_once()
        if outputs:
            self._tries += 1
            self._under_way = next(self._numbers)
            self._writing.publish_step(self._under_way, self._step, outputs)

    def published(self, event: StepPublished) -> None:
        """It is visible. What was lost comes again with the next step; after the last one at once."""
        if event.number != self._under_way:
            return  # of an execution that has failed
        self._under_way = None
        if event.error is not None:
            raise event.error
        lost = self._sinks.published_at_once(event.published)
        if self._final and lost:
            if self._tries == _TRIES:
                raise JobExecutionError(f"{lost} transactions of the last step were aborted {_TRIES} times in a row")
            self._publish()

    def look(self) -> None:
        """Say now and then that the job waits for it."""
        if self._under_way is None:
            return
        if self._patience is None:
            self._patience = Patience(
                f"the job has waited for %d s until the output of step {self._step} is published, and reads nothing "
                "meanwhile: %s. Does the system outside answer?",
                self._writing.what,
            )
        self._patience.look()

    def leave(self) -> None:
        """The execution is over: nobody waits for its output any more."""
        self._under_way = None
