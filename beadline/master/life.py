"""The life of a job as states. The job master moves between them, and nothing else does.

========== ================================================ ===================================================
state      what happens in it                               what leads out of it
========== ================================================ ===================================================
CREATED    nothing yet                                      start → PREPARING
PREPARING  sources and sinks are prepared, the program is   done → RESTORING; an error → ENDING
           sent to the workers
RESTORING  state and sinks are brought to a snapshot, or to done → RUNNING; an error → RESTARTING, or ENDING if
           the beginning; what it had pre-committed is      the job has never run
           published
RUNNING    steps run, checkpoints are taken                 last step sealed → FINISHING; a savepoint to stop or
                                                            cancel with → STOPPING; told to end → SUSPENDING; an
                                                            error → RESTARTING
STOPPING   the savepoint is written (after a last step, if  its output is visible → ENDING; it failed → RUNNING, or
           the job drains), then its output published       FINISHING if the last step is sealed; told to end →
                                                            SUSPENDING; an error → RESTARTING
SUSPENDING no new step; a last checkpoint is taken          complete, or it failed → ENDING; an error → ENDING
FINISHING  a last checkpoint, and its output is published   output is visible → ENDING; a savepoint to stop or cancel
                                                            with → STOPPING; an error → RESTARTING, or ENDING if the
                                                            job was told to end meanwhile
RESTARTING waits as long as the restart strategy says       time is over → RESTORING; told to end → ENDING
ENDING     what is left is kept or removed                  done → ENDED
ENDED      callers that wait are told
========== ================================================ ===================================================

From every state between CREATED and ENDING: cancelled, told to end at once, fenced (another driver has taken over the
job), or having lost the engine → ENDING. Why a job ends, and what that means for its checkpoints, is
:class:`~beadline.checkpoint.ends.End`. An error for which the restart strategy has no restart left ends the job too.
Without checkpoints nothing is gone back to: RESTORING then goes on after the step that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beadline.master.job import JobMaster
    from beadline.master.reporting.news import Watcher


class State(Enum):
    """Where a job stands."""

    CREATED = "created"
    PREPARING = "preparing"
    RESTORING = "restoring"
    RUNNING = "running"
    STOPPING = "stopping"
    SUSPENDING = "suspending"
    FINISHING = "finishing"
    RESTARTING = "restarting"
    ENDING = "ending"
    ENDED = "ended"

    @property
    def executes(self) -> bool:
        """Whether an execution goes on."""
        return self in _EXECUTING


_EXECUTING = frozenset({State.RUNNING, State.STOPPING, State.SUSPENDING, State.FINISHING})

_MOVES: dict[State, frozenset[State]] = {
    State.CREATED: frozenset({State.PREPARING}),
    State.PREPARING: frozenset({State.RESTORING, State.ENDING}),
    State.RESTORING: frozenset({State.RUNNING, State.RESTARTING, State.ENDING}),
    State.RUNNING: frozenset({State.STOPPING, State.SUSPENDING, State.FINISHING, State.RESTARTING, State.ENDING}),
    State.STOPPING: frozenset({State.RUNNING, State.SUSPENDING, State.FINISHING, State.RESTARTING, State.ENDING}),
    State.SUSPENDING: frozenset({State.ENDING}),
    State.FINISHING: frozenset({State.STOPPING, State.RESTARTING, State.ENDING}),
    State.RESTARTING: frozenset({State.RESTORING, State.ENDING}),
    State.ENDING: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
}


class Life:
    """The present state; moves that the table does not have are refused."""

    def __init__(self) -> None:
        self.state = State.CREATED

    def __repr__(self) -> str:
        return f"<Life: {self.state.value}>"

    def to(self, state: State) -> None:
        if state is self.state:
            return
        assert state in _MOVES[self.state], f"a job that is {self.state.value} can't become {state.value}"
        self.state = state


#: The jobs that run in this process now: those that have to end in good order when the process does.
jobs: dict[JobMaster, None] = {}

#: Called with each job that is made in this process; what they give hears of all that happens to it.
followers: list[Callable[[JobMaster], Watcher]] = []


def executions() -> tuple[str, ...]:
    """Those that run now: workers may drop what they hold of others."""
    return tuple(name for job in list(jobs) if (name := job.execution) is not None)
