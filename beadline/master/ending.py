"""What stays when a job has ended, and what is removed, in this order: each crash in between leaves something that the
next driver understands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from beadline.checkpoint.ends import End, Fate
from beadline.common.job_status import JobStatus
from beadline.errors import EngineLostError
from beadline.master.definition import Job
from beadline.master.engines.threads import Threads
from beadline.master.reporting.telling import first_line
from beadline.master.running import Running
from beadline.master.snapshots.waiting import Grace, patiently

_LOG = logging.getLogger("beadline")

# How long the end waits for calls to an engine that is lost.
_LAST_CALLS_SECONDS = 5.0


def await_output(job: Job, running: Running | None, end: End, grace: Grace) -> str:
    """Wait until nothing is being published, or the grace is over; gives what is not visible, and why. An end that
    leaves everything to another driver waits for nothing."""
    if running is None or end.checkpoints is Fate.UNTOUCHED or job.engine.loss is not None:
        return ""
    return "; ".join(running.checkpoints.await_output(grace))


def clear_up(job: Job, running: Running | None, end: End, began: bool, grace: Grace) -> bool:
    """Keep what a later driver can resume from, and remove the rest; gives whether there is something to resume
    from. No system outside is waited for when the grace is over."""
    home = job.home
    if running is not None:
        running.leave_execution()
        _within(job, "stop the sources", running.stop_sources)
        running.let_go()
    if running is None or not began or end.checkpoints is Fate.UNTOUCHED:
        if running is not None:
            running.do(running.checkpoints.abandon())
        if end is not End.FENCED:
            home.leave()
        return bool(home.completed)
    if end.status is JobStatus.FINISHED:
        # All is visible. One that was stopped and went on all the same has left its savepoint behind.
        stop, running.checkpoints.stop_point = running.checkpoints.stop_point, None
        home.note_finish(job.settings.clock(), stop[1] if stop is not None and end is End.STOPPED else "")
    lost = job.engine.loss is not None
    done = running.checkpoints.close(grace, _LAST_CALLS_SECONDS if lost else None)
    running.do(running.checkpoints.stop(end))
    resumable = running.checkpoints.is_resumable(end)
    if done:
        _within(job, "remove what the sinks have staged", partial(running.sinks.close, discard=not resumable))
    if resumable and done and not lost:  # else tasks may still write; the next driver removes what is left
        home.drop_orphans(set())
    home.drop_claimed(running.checkpoints.registry.files())
    home.close(resumable)
    return resumable


def _within(job: Job, what: str, call: Callable[[], None]) -> None:
    """Call code of sources and sinks, which may wait for a system outside: for as long as a checkpoint may take."""
    grace = Grace(job.settings.checkpoints.timeout_ms, job.settings.monotonic)
    grace.begin()
    threads = Threads(1, "beadline-end")
    called = threads.submit(call)
    threads.shutdown(wait=False)
    if patiently([called], lambda: what, grace):
        called.result()
    else:
        _LOG.warning("the job ends without it: %s", what)


# -- what a job says when it has ended


def without_last_checkpoint(error: BaseException, running: Running) -> End:
    """A job that was told to end could not take a last checkpoint, or not publish its output, which is said later."""
    if not running.checkpoints.unpublished:
        _LOG.warning("no last checkpoint could be taken: %s", first_line(error))
    return End.SUSPENDED


def how_to_resume(newest: str | None, claimed: bool, running: Running | None) -> str | None:
    """What to give to ``beadline run``. A snapshot that the job has claimed is not in the job's own folder; a savepoint
    that it was to stop with comes before checkpoints, because it may have published."""
    stop = running.checkpoints.stop_point if running is not None else None
    if stop is not None:
        return f"-s {stop[1]}, the savepoint that it was to stop with"
    if newest is None or claimed:
        return None if newest is None else f"-s {newest}"
    return f"-s {newest} (or -s latest)"


def engine_lost(job_name: str, loss: str, resume: str | None, durable: bool) -> EngineLostError:
    """In two lines what happened, and how to go on. ``durable``: its checkpoints outlive the driver."""
    if resume is not None:
        how = f"Its checkpoints are kept. To go on, run the same program with {resume}."
    elif durable:
        how = "It had not completed a checkpoint of its own: run the same program again, as you did this time."
    else:
        how = (
            "It has no checkpoints that outlive the driver, so its state is lost: run it again from its beginning. "
            "With execution.checkpointing.interval and execution.checkpointing.dir set, it could go on."
        )
    return EngineLostError(f"job '{job_name}' has lost Spark: {loss}.\n{how}")


def say_last_words(job_name: str, end: End, resume: str | None, durable: bool, unpublished: str) -> None:
    """Log how to go on, after an end that does not raise that itself."""
    if unpublished and resume is not None:
        text = (
            "job '%s' was ended, and some of its output is missing: %s. Resume it with %s: what is missing comes then"
        )
        _LOG.error(text, job_name, unpublished, resume)
    elif unpublished:
        _LOG.error("job '%s' was ended, and some of its output is lost: %s", job_name, unpublished)
    elif end is End.SUSPENDED and resume is not None:
        _LOG.warning("job '%s' was stopped; resume it with %s", job_name, resume)
    elif end is End.SUSPENDED and durable:
        _LOG.warning("job '%s' was stopped before it had a checkpoint: it can only start over", job_name)
    elif end in (End.CANCELLED, End.FAILED) and resume is not None:
        _LOG.info("job '%s': %s; it can be resumed with %s", job_name, end.text, resume)
