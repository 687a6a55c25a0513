"""The text of ``/metrics`` for Prometheus: Flink's metric names and labels, as its own reporter writes them.

All are gauges, as with Flink's reporter: its counters may go down too. Numbers of the driver that Flink has no name for
start with ``beadline_job``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beadline.web.answers import metrics
from beadline.web.answers.words import endpoint, flink_name
from beadline.web.record import JobRecord, Subtask, Vertex

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_JOB = "jobmanager_job"
_TASK = "taskmanager_job_task"
_OPERATOR = "taskmanager_job_task_operator"
_Labels = tuple[tuple[str, str], ...]


def exposition(records: Sequence[JobRecord]) -> str:
    """All jobs of this process."""
    page = _Page()
    page.add("flink_jobmanager_numRunningJobs", (), sum(not record.has_ended for record in records))
    page.add("flink_jobmanager_taskSlotsTotal", (), max((r.slots for r in records if not r.has_ended), default=0))
    workers = {worker.id for record in records if not record.has_ended for worker in record.workers}
    page.add("flink_jobmanager_numRegisteredTaskManagers", (), len(workers))
    for record in records:
        _job(page, record)
        for vertex in record.vertices if not record.has_ended else ():
            for subtask in vertex.subtasks:
                _subtask(page, record, vertex, subtask)
    return page.text()


def _job(page: _Page, record: JobRecord) -> None:
    labels = (("host", record.host), ("job_id", record.flink_id), ("job_name", record.name))
    page.add_all(_JOB, labels, metrics.job_values(record))
    own = {
        "step": record.step,
        "records": record.records,
        "records_per_second": record.records_per_second,
        "keys": record.keys,
        "state_bytes": record.state_bytes,
        "watermark": record.watermark,
        "attempt": record.attempt,
        "rerun_steps": record.rerun_steps,
    }
    for name, value in own.items():
        page.add(f"beadline_job_{name}", labels, value)


def _subtask(page: _Page, record: JobRecord, vertex: Vertex, subtask: Subtask) -> None:
    host, worker = endpoint(record, subtask)
    task = (
        ("host", host.partition(":")[0]),
        ("tm_id", worker),
        ("job_id", record.flink_id),
        ("job_name", record.name),
        ("task_id", vertex.id),
        ("task_name", flink_name(vertex)),
        ("task_attempt_id", f"{record.flink_id}_{vertex.id}_{subtask.index}_{record.attempt - 1}"),
        ("task_attempt_num", str(record.attempt - 1)),
        ("subtask_index", str(subtask.index)),
    )
    operator = (*task, ("operator_id", vertex.id), ("operator_name", flink_name(vertex)))
    page.add_all(_TASK, task, metrics.task_values(vertex, subtask))
    page.add_all(_OPERATOR, operator, metrics.operator_values(vertex, subtask))
    page.add_all(_OPERATOR, operator, metrics.user_values(subtask.metrics))
    page.add("beadline_subtask_keys", operator, subtask.keys)
    page.add("beadline_subtask_state_bytes", operator, subtask.state_bytes)


class _Page:
    """Samples by metric, as the format wants them: a metric's samples stand together, after its type."""

    def __init__(self) -> None:
        self._samples: dict[str, list[str]] = {}
        self._told: dict[_Labels, str] = {}

    def add_all(self, scope: str, labels: _Labels, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self.add(f"flink_{scope}_{_clean(name)}", labels, value)

    def add(self, name: str, labels: _Labels, value: Any) -> None:
        """What is no number is left out, as Flink's reporter does."""
        if not isinstance(value, int | float):
            return
        told = self._told.get(labels)
        if told is None:
            told = self._told[labels] = _braced(labels)
        number = int(value) if isinstance(value, bool) else value
        self._samples.setdefault(name, []).append(f"{name}{told} {_number(number)}\n")

    def text(self) -> str:
        return "".join(part for name, samples in self._samples.items() for part in (f"# TYPE {name} gauge\n", *samples))


def _number(value: int | float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _clean(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9:_]", "_", name)


def _braced(labels: Iterable[tuple[str, str]]) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
