"""The jobs that run in this process now: those that have to end in good order when the process does."""

from __future__ import annotations

from typing import Protocol


class Living(Protocol):
    """A job, as seen by the code that ends the process."""

    def suspend(self, at_once: bool = False) -> None:
        """End so that the job can be resumed, if it can; may be said again.

        :param at_once: without a last checkpoint
        """

    @property
    def is_resumable(self) -> bool:
        """Whether a checkpoint of it would outlive the process."""

    @property
    def exit_code(self) -> int:
        """With which its process should exit, when the job has ended."""

    @property
    def execution(self) -> str | None:
        """The name of its present execution, if one has begun."""


jobs: dict[Living, None] = {}


def executions() -> tuple[str, ...]:
    """Those that run now: workers may drop what they hold of others."""
    return tuple(name for job in list(jobs) if (name := job.execution) is not None)
