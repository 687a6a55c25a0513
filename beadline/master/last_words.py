"""What a job says when it has ended: what happened, and how to go on."""

from __future__ import annotations

import logging

from beadline.checkpoint.ends import End
from beadline.errors import EngineLostError

_LOG = logging.getLogger("beadline")


def how_to_resume(newest: str, claimed: bool) -> str:
    """What to give to ``beadline run`` to go on from the newest checkpoint.

    :param claimed: it is the snapshot that the job has claimed, which is not in the job's own folder
    """
    return f"-s {newest}" if claimed else f"-s {newest} (or -s latest)"


def engine_lost(job_name: str, loss: str, resume: str | None, durable: bool) -> EngineLostError:
    """In two lines what happened, and how to go on.

    :param resume: how to resume it, None if it can't be
    :param durable: whether its checkpoints outlive the driver
    """
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


def say(job_name: str, end: End, resume: str | None, durable: bool) -> None:
    """Log how to go on, after an end that does not raise that itself."""
    if end is End.SUSPENDED and resume is not None:
        _LOG.warning("job '%s' was stopped; resume it with %s", job_name, resume)
    elif end is End.SUSPENDED and durable:
        _LOG.warning("job '%s' was stopped before it had a checkpoint: it can only start over", job_name)
    elif end in (End.CANCELLED, End.FAILED) and resume is not None:
        _LOG.info("job '%s': %s, and its checkpoints are kept; resume it with %s", job_name, end.text, resume)
