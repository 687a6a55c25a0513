"""What stays when a job has ended, and what is removed, in this order: each crash in between leaves something that the
next driver understands."""

from __future__ import annotations

from beadline.checkpoint.ends import End, Fate
from beadline.common.job_status import JobStatus
from beadline.master.definition import Job
from beadline.master.running import Running

# How long the end waits for calls to an engine that is lost.
_LAST_CALLS_SECONDS = 5.0


def clear_up(job: Job, running: Running | None, end: End, began: bool) -> bool:
    """Keep what a later driver can resume from, and remove the rest.

    :param running: None if the job could not even be prepared
    :param began: whether an execution has begun
    :returns: whether there is something to resume from
    """
    home = job.home
    if running is not None:
        running.leave_execution()
        running.let_go()
    if running is None or not began or end.checkpoints is Fate.UNTOUCHED:
        if running is not None:
            running.do(running.checkpoints.abandon())
        if end is not End.FENCED:
            home.leave()
        return bool(home.completed)
    if end.status is JobStatus.FINISHED:
        home.note_finish(job.settings.clock())
    lost = job.engine.loss is not None
    running.do(running.checkpoints.close(end, _LAST_CALLS_SECONDS if lost else None))
    resumable = running.checkpoints.is_resumable(end)
    running.sinks.close(discard=not resumable)
    if resumable and not lost:  # else tasks may still write; the next driver removes what is left
        home.drop_orphans(set())
    home.drop_claimed(running.checkpoints.needed())
    home.close(resumable)
    return resumable
