"""The states of a job: the table for people, the one that is checked, and what real jobs do are the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.restart import FixedDelay, NoRestart
from beadline.common.job_status import JobStatus
from beadline.errors import JobExecutionError
from beadline.master import life, restoring
from beadline.master.life import Life, State
from tests.master.snapshots.local_jobs import LocalJob
from tests.master.snapshots.troubles import Gate, TwiceEngine, fails, until

Move = tuple[State, State]

TABLE = {(state, to) for state, allowed in life._MOVES.items() for to in allowed}
BEFORE_ENDING = [state for state in State if state not in (State.CREATED, State.ENDING, State.ENDED)]
BAD = JobExecutionError("a bad record")


def test_the_table_for_people_is_the_one_that_is_checked() -> None:
    assert life.__doc__ is not None
    _, start, table, *_ = re.split(r"^=+ =+ =+$", life.__doc__, flags=re.MULTILINE)
    told: set[Move] = {(state, State.ENDING) for state in BEFORE_ENDING}
    state = State.CREATED
    for line in table.splitlines()[1:]:
        name = line[:11].strip()
        state = State[name] if name else state
        told |= {(state, State[to]) for to in re.findall(r"\b[A-Z]{5,}\b", line[60:])}
    assert "what leads out of it" in start
    assert told == TABLE


def test_other_moves_are_refused() -> None:
    for state in State:
        for to in State:
            moving = Life()
            moving.state = state
            if (state, to) in TABLE or state is to:
                moving.to(to)
                assert moving.state is to
            else:
                with pytest.raises(AssertionError, match=f"a job that is {state.value} can't become {to.value}"):
                    moving.to(to)


# -- jobs, each of which makes moves that others don't


def finishes(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    job = LocalJob(folder)
    job.step()
    job.source.bounded = True
    return job


def restarts(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    """Going back fails too, at first; and so does publishing at the end."""
    patch.setattr(restoring, "go_back", fails(1, OSError("no disk"), restoring.go_back))
    job = LocalJob(folder)
    job.engine.failures = {"step": [BAD], "publish": [OSError("no disk")]}
    job.give()
    job.source.bounded = True
    return job


def can_not_be_prepared(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    patch.setattr(TwiceEngine, "deploy", fails(1, OSError("no workers"), None))
    return LocalJob(folder)


def can_not_begin(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    patch.setattr(restoring, "begin", fails(1, OSError("no disk"), None))
    return LocalJob(folder)


def is_cancelled(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    job = LocalJob(folder)
    job.step()
    job.master.cancel()
    return job


def is_cancelled_before_its_restart(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    job = LocalJob(folder, restart=FixedDelay(1, 60_000))
    job.engine.failures["step"] = [BAD]
    job.give()
    until(lambda: job.master.status is JobStatus.RESTARTING)
    job.master.cancel()
    return job


def is_suspended(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    job = LocalJob(folder)
    job.step()
    job.master.suspend()
    return job


def stops_after_it_failed_to(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    """Once the savepoint can't be written, and once its output can't be published."""
    job = LocalJob(folder)
    patch.setattr(job.storage, "write_savepoint", fails(1, OSError("no disk"), job.storage.write_savepoint))
    job.engine.failures["publish"] = [OSError("no disk")]
    job.step()
    for _ in range(2):
        assert job.stop(folder / "savepoints").exception(20) is not None
    until(lambda: job.master.attempt == 2 and job.master.execution is not None, "the next execution")
    job.stop(folder / "savepoints")
    return job


def is_suspended_while_it_stops(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    job = LocalJob(folder)
    gate = job.engine.gates["savepoint"] = Gate()
    job.step()
    job.stop(folder / "savepoints")
    gate.reached()
    job.master.suspend()
    until(lambda: job.master._life.state is not State.STOPPING)
    gate.open()
    return job


def can_not_stop_after_it_drained(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    job = LocalJob(folder)
    patch.setattr(job.storage, "write_savepoint", fails(1, OSError("no disk"), None))
    job.step()
    job.master.trigger(CheckpointKind.STOP_WITH_SAVEPOINT, str(folder / "savepoints"), drain=True)
    return job


def stops_when_it_had_read_everything(folder: Path, patch: pytest.MonkeyPatch) -> LocalJob:
    job = LocalJob(folder, restart=NoRestart())
    gate = job.engine.gates["publish"] = Gate()
    job.step()
    job.source.bounded = True
    gate.reached()
    job.stop(folder / "savepoints")
    until(lambda: job.master._life.state is not State.FINISHING)
    gate.open()
    return job


JOBS = [
    finishes,
    restarts,
    can_not_be_prepared,
    can_not_begin,
    is_cancelled,
    is_cancelled_before_its_restart,
    is_suspended,
    stops_after_it_failed_to,
    is_suspended_while_it_stops,
    can_not_stop_after_it_drained,
    stops_when_it_had_read_everything,
]


def test_real_jobs_make_these_moves_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: set[Move] = set()
    to = Life.to

    def noted(self: Any, state: State) -> None:
        if state is not self.state:
            made.add((self.state, state))
        to(self, state)

    monkeypatch.setattr(Life, "to", noted)
    for run in JOBS:
        with monkeypatch.context() as patch:
            job = run(tmp_path / run.__name__, patch)
            job.ended()
            assert job.master._life.state is State.ENDED
    assert made == TABLE
