"""The record of a job that runs in this process, made from its master.

Any thread may ask. Nothing is asked of the job's own thread, which goes on with its work: what it keeps is read as it
is, and copied in steps that no other thread can see half of. So numbers of one record may be a step apart. A record is
made at most every :data:`FRESH_SECONDS`, however many ask; treat it as unchangeable.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections.abc import Iterable

import beadline
from beadline.common.secrets import without_passwords
from beadline.master.client import registry
from beadline.master.engines.engine import Engine
from beadline.master.job import JobMaster
from beadline.master.reporting import news
from beadline.master.reporting.telling import first_line
from beadline.web import live_checkpoints, live_plan, record
from beadline.web.record import JobRecord

#: How long a record is given to all who ask.
FRESH_SECONDS = 0.2


def record_of(master: JobMaster, fresh: bool = False) -> JobRecord:
    """The job as it is now, or, unless ``fresh``, was a moment ago; of a job that has ended, as it was at its end."""
    with _lock:
        recorder = _recorders.get(master)
        if recorder is None:
            recorder = _recorders[master] = _Recorder()
    return recorder.newest(master, fresh)


class _Recorder:
    """The newest record of one job, and what is worth keeping for the next one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = 0.0
        self._final = False
        self._record: JobRecord | None = None
        self._checkpoints = live_checkpoints.Kept()
        self._steps: dict[tuple[int, int], record.Step] = {}

    def newest(self, master: JobMaster, fresh: bool) -> JobRecord:
        with self._lock:
            ended = master.wait(0)
            old = time.monotonic() - self._made >= FRESH_SECONDS
            if self._record is None or (not self._final and (fresh or old or ended)):
                self._record = self._make(master)
                self._made, self._final = time.monotonic(), ended
            return self._record

    def _make(self, master: JobMaster) -> JobRecord:
        plan, settings = master.plan, master.job.settings
        made = JobRecord(
            master.job_id,
            plan.job_name,
            master.status.name,
            master.state.value,
            now=settings.clock(),
            started_at=master.started_at,
            ended_at=master.ended_at or None,
            version=beadline.__version__,
            engine=_engine(master.job.engine),
            application=master.job.engine.application,
            slots=master.job.engine.slots,
            guarantee=str(master.guarantee),
            script=plan.program.script,
            arguments=list(plan.program.arguments),
            pid=os.getpid(),
            host=socket.gethostname(),
            log=os.environ.get(registry.LOG_VARIABLE) or None,
            attempt=master.attempt,
            last_checkpoint=master.last_checkpoint,
            error=None if master.error is None else without_passwords(first_line(master.error)),
            settings=live_plan.settings(master),
            vertices=live_plan.vertices(master),
            workers=live_plan.workers(master),
        )
        made.checkpoints, made.counts = self._checkpoints.of(master)
        _add_numbers(made, master)
        add_events(made, master.chronicle.events)
        made.steps = self._steps_of(master)
        made.metrics = record.Metrics(**master.metrics.as_dict())
        return made

    def _steps_of(self, master: JobMaster) -> list[record.Step]:
        """Most of them are those of the record before."""
        made = {}
        for report in list(master.results.progress.steps):
            key = report.step, report.at
            made[key] = self._steps.get(key) or step_of(report)
        self._steps = made
        return list(made.values())


_lock = threading.Lock()
_recorders: weakref.WeakKeyDictionary[JobMaster, _Recorder] = weakref.WeakKeyDictionary()


def _engine(engine: Engine) -> str:
    return type(engine).__name__.removesuffix("Engine").lower()


def _add_numbers(made: JobRecord, master: JobMaster) -> None:
    truth = master.truth
    made.rerun_steps = master.results.progress.rerun_steps
    if truth is not None:
        made.step, made.records = truth.step, truth.records
        made.state_bytes = sum(vertex.total("state_bytes") for vertex in made.vertices)
        made.keys = sum(vertex.total("keys") for vertex in made.vertices)
    sources = [vertex for vertex in made.vertices if vertex.kind == record.SOURCE]
    made.records_per_second = sum(source.total("records_in_per_second") for source in sources)
    known = [vertex.watermark for vertex in made.vertices if vertex.kind != record.SOURCE]
    made.watermark = min((watermark for watermark in known if watermark is not None), default=None)


def add_events(made: JobRecord, events: Iterable[news.News]) -> None:
    """What has happened to the job, also under earlier drivers."""
    for event in events:
        match event:
            case news.StatusChanged():
                made.statuses.append(record.StatusChange(event.at, event.status, event.state, event.reason))
            case news.ExecutionFailed():
                made.failures.append(_failure(event))
            case news.ExecutionStarted():
                facts = event.checkpoint, event.step, event.path, event.savepoint
                made.starts.append(record.Start(event.at, event.attempt, *facts))
    made.restarts = sum(start.attempt > 1 for start in made.starts)
    made.counts.restored = sum(start.checkpoint is not None for start in made.starts)


def step_of(event: news.StepReport) -> record.Step:
    return record.Step(
        event.step, event.at, event.seconds, event.records, event.tries, event.state_bytes, event.watermark
    )


def _failure(event: news.ExecutionFailed) -> record.Failure:
    return record.Failure(
        event.at,
        event.attempt,
        without_passwords(event.error),
        event.name,
        without_passwords(event.traceback or event.error),
        event.operator,
        event.subtask,
        None if event.record is None else without_passwords(event.record),
        restarted_from=event.restarted_from,
    )
