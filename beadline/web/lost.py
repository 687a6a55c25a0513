"""Jobs whose driver was killed. Nothing was written at their end, so their record is put together from what is left.

That is the driver's file in the registry, and, if the job's checkpoints are in local files, what it kept there for
people: its chronicle (:mod:`beadline.master.reporting.chronicle`), its newest checkpoint, and the savepoint that it was
to stop with. Nothing else is searched.
How it ended is told as it is known: the driver is gone, and did not say why. Its state is SUSPENDED, Flink's word for
a job that has not ended but has lost its driver; another driver can go on with it.
"""

from __future__ import annotations

import logging
from itertools import zip_longest

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.directory.jobs import CheckpointDirectory, read_trace
from beadline.checkpoint.settings import CheckpointSettings
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.common.secrets import without_passwords
from beadline.master.client import registry
from beadline.master.client.registry import Entry
from beadline.master.client.rest_settings import RestSettings
from beadline.master.reporting.chronicle import Chronicle
from beadline.master.reporting.news import StepReport, earlier_news
from beadline.state.segments.files import local_path
from beadline.web.history import archive_of
from beadline.web.live import add_events, step_of
from beadline.web.live_checkpoints import checkpoint_of
from beadline.web.live_plan import vertex_id
from beadline.web.record import (
    SINK,
    SOURCE,
    CheckpointCounts,
    Failure,
    JobRecord,
    Settings,
    StatusChange,
    Subtask,
    Vertex,
)

_LOG = logging.getLogger("beadline")

# Stands where the class of an exception would.
_LOST = "DriverLost"


def archive_lost_jobs() -> None:
    """Give the jobs whose drivers were killed their places in the archives, as if they had ended in good order."""
    for entry in registry.lost():
        settings = RestSettings(history_directory=entry.history_dir, history_jobs=entry.history_jobs)
        archive = archive_of(settings)
        known = archive.get(entry.job_id)
        try:
            if known is None or (known.ended_at or 0) < entry.started_at:  # otherwise it was killed after its end
                archive.keep(record_of_lost(entry))
            registry.forget(entry)
        except Exception as error:  # one odd file must not hide all other jobs
            _LOG.debug("job %s can't be archived: %r", entry.job_id, error)


def record_of_lost(entry: Entry) -> JobRecord:
    """All that is known of a job whose driver was killed."""
    made = JobRecord(
        entry.job_id,
        entry.name,
        "SUSPENDED",
        "ended",
        started_at=entry.started_at,
        engine=entry.engine,
        script=entry.script,
        arguments=list(entry.argv),
        pid=entry.pid,
        host=entry.host,
        log=entry.log,
        settings=Settings(known=False),
    )
    directory = entry.checkpoint_dir
    if directory is not None and local_path(directory) is not None:
        try:
            _add_what_it_kept(made, _place_of(made.job_id, directory))
        except Exception as error:
            _LOG.debug("%s can't be read: %s", directory, error)
    signs = [step.at for step in made.steps] + [change.at for change in made.statuses]
    signs += [each.ended_at or each.triggered_at for each in made.checkpoints]
    made.now = made.ended_at = max([entry.started_at, *signs])
    made.error = f"the driver, process {entry.pid} on {entry.host}, ended without a word"
    more = "It was killed, or its machine went down. The time of the end is that of the last sign of life."
    if made.last_checkpoint is not None:
        more += f"\nTo go on with it: beadline run -s {made.last_checkpoint} …"
    made.statuses.append(StatusChange(made.ended_at, made.state, made.life, made.error))
    trace = f"{_LOST}: {made.error}\n\n{more}"
    made.failures.append(Failure(made.ended_at, made.attempt, made.error, _LOST, trace))
    return made


def _place_of(job_id: str, directory: str) -> CheckpointDirectory:
    """A job that was told to make no folder of its own has its checkpoints in the directory itself."""
    flat = CheckpointDirectory(directory, create_subdir=False)
    return flat if flat.completed(job_id) else CheckpointDirectory(directory)


def _add_what_it_kept(made: JobRecord, directory: CheckpointDirectory) -> None:
    storage = FileJobStorage(directory, made.job_id)
    there = storage.completed()
    chronicle = Chronicle(storage, CheckpointSettings.history)
    made.checkpoints = [
        checkpoint_of(stats) for stats in reversed(chronicle.still_there(one.checkpoint_id for one in there))
    ]
    made.counts = CheckpointCounts(*chronicle.counts)
    add_events(made, chronicle.events)
    made.attempt = max((start.attempt for start in made.starts if start.at >= made.started_at), default=1)
    made.steps = [step_of(event) for event in earlier_news(storage.history()) if isinstance(event, StepReport)]
    newest = next((one for one in there if one.snapshot is not None), None)
    if newest is not None and newest.snapshot is not None:
        made.last_checkpoint = newest.pointer
        made.step, made.records = newest.snapshot.step, newest.snapshot.counters.get("records", 0)
        made.vertices = _operators(newest.snapshot)
        made.state_bytes = sum(vertex.total("state_bytes") for vertex in made.vertices)
        made.keys = None
    trace = read_trace(storage.folder)
    if trace is not None and trace.job_id == made.job_id:
        # It was stopped: from an older checkpoint, output that may be visible would come twice.
        made.last_checkpoint = trace.savepoint or None


def _operators(snapshot: Snapshot) -> list[Vertex]:
    """By name, as the checkpoint has them. It does not say how they were connected."""
    return [
        Vertex(
            vertex_id(each.uid),
            without_passwords(each.name),
            each.uid,
            SOURCE if each.position is not None else SINK if each.committables is not None else "operator",
            parallelism=each.parallelism,
            max_parallelism=each.max_parallelism,
            keyed=bool(each.keyed),
            subtasks=[
                Subtask(index, state_bytes=sum(handle.size for handle in handles if handle is not None))
                for index, handles in enumerate(zip_longest(each.keyed, each.operator_state))
            ],
        )
        for each in snapshot.operators
    ]
