"""Paths about all jobs and what runs them. Flink's task managers are the processes that run tasks here: Spark's Python
workers, or the driver itself with the local engine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence

from beadline import __version__
from beadline.web.answers.words import Json, NotFound
from beadline.web.record import JobRecord, Worker

#: The version of Flink whose paths and programs these are; Flink's own clients look at it.
FLINK_VERSION = "2.3.0"
_REVISION = f"beadline-{__version__}"
_REFRESH_MS = 3000


def overview(records: Sequence[JobRecord]) -> Json:
    """``/overview``"""
    running = [record for record in records if not record.has_ended]
    states = [record.state for record in records]
    slots = _slots(running)
    used = max((_width(record) for record in running), default=0)
    return {
        "taskmanagers": len(_workers(running)),
        "slots-total": slots,
        "slots-available": max(0, slots - used),
        "jobs-running": len(running),
        "jobs-finished": states.count("FINISHED"),
        "jobs-cancelled": states.count("CANCELED") + states.count("SUSPENDED"),
        "jobs-failed": states.count("FAILED"),
        "flink-version": FLINK_VERSION,
        "flink-commit": _REVISION,
    }


def config(may_cancel: bool = True, is_history: bool = False) -> Json:
    """``/config``: what Flink's page asks first"""
    now = time.localtime()
    return {
        "refresh-interval": _REFRESH_MS,
        "timezone-name": now.tm_zone,
        "timezone-offset": now.tm_gmtoff * 1000,
        "flink-version": FLINK_VERSION,
        "flink-revision": _REVISION,
        "features": {
            "web-submit": False,
            "web-cancel": may_cancel,
            "web-rescale": False,
            "web-history": is_history,
        },
    }


def job_manager_config(options: Mapping[str, str]) -> list[Json]:
    """``/jobmanager/config`` and ``/jobs/:jid/jobmanager/config``, of options that are masked already"""
    return [{"key": key, "value": value} for key, value in sorted(options.items())]


def task_managers(records: Iterable[JobRecord]) -> Json:
    """``/taskmanagers``"""
    running = [record for record in records if not record.has_ended]
    return {"taskmanagers": [_task_manager(running, worker) for worker in _workers(running)]}


def task_manager(records: Iterable[JobRecord], id: str) -> Json:
    """``/taskmanagers/:tmid``"""
    running = [record for record in records if not record.has_ended]
    worker = next((each for each in _workers(running) if each.id == id), None)
    if worker is None:
        raise NotFound(f"there is no worker {id}; /taskmanagers lists those that there are")
    slots = [
        {"jobId": record.flink_id, "resource": _resource(1.0), "assignedTasks": tasks}
        for record in running
        if (tasks := _tasks(record, worker))
    ]
    return {**_task_manager(running, worker), "allocatedSlots": slots, "metrics": dict(_NO_JVM)}


def _task_manager(running: Sequence[JobRecord], worker: Worker) -> Json:
    assigned = sum(_tasks(record, worker) for record in running)
    return {
        "id": worker.id,
        "path": f"{worker.executor or worker.host}/{worker.pid}",
        "dataPort": worker.pid,  # Flink's page shows it as the part of the endpoint that tells workers apart
        "jmxPort": -1,
        "timeSinceLastHeartbeat": worker.last_seen,
        "slotsNumber": 1,
        "freeSlots": 0 if assigned else 1,
        "assignedTasks": assigned,
        "totalResource": _resource(1.0),
        "freeResource": _resource(0.0 if assigned else 1.0),
        "hardware": {
            "cpuCores": os.cpu_count() or 1,
            "physicalMemory": _memory(),
            "freeMemory": 0,
            "managedMemory": 0,
        },
        "memoryConfiguration": dict.fromkeys(_MEMORY, 0),
    }


def _workers(records: Iterable[JobRecord]) -> list[Worker]:
    """Jobs of one driver share workers: the one seen last counts."""
    found: dict[str, Worker] = {}
    for worker in (worker for record in records for worker in record.workers):
        if worker.id not in found or found[worker.id].last_seen < worker.last_seen:
            found[worker.id] = worker
    return list(found.values())


def _tasks(record: JobRecord, worker: Worker) -> int:
    return sum(subtask.worker == worker.id for vertex in record.vertices for subtask in vertex.subtasks)


def _slots(records: Sequence[JobRecord]) -> int:
    return max((record.slots for record in records), default=0)


def _width(record: JobRecord) -> int:
    return min(record.slots, max((vertex.parallelism for vertex in record.vertices), default=0))


def _resource(cores: float) -> Json:
    """Memory is Spark's to give and to know."""
    return {
        "cpuCores": cores,
        "taskHeapMemory": 0,
        "taskOffHeapMemory": 0,
        "managedMemory": 0,
        "networkMemory": 0,
        "extendedResources": {},
    }


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):  # not on this system
        return 0


_MEMORY = (
    "frameworkHeap",
    "taskHeap",
    "frameworkOffHeap",
    "taskOffHeap",
    "networkMemory",
    "managedMemory",
    "jvmMetaspace",
    "jvmOverhead",
    "totalFlinkMemory",
    "totalProcessMemory",
)
# Workers are Python processes: there is no Java heap to tell of.
_NO_JVM: Json = {
    **dict.fromkeys(
        (
            *("heapUsed", "heapCommitted", "heapMax", "nonHeapUsed", "nonHeapCommitted", "nonHeapMax"),
            *("directCount", "directUsed", "directMax", "mappedCount", "mappedUsed", "mappedMax"),
            *("nettyShuffleMemorySegmentsAvailable", "nettyShuffleMemorySegmentsUsed"),
            *("nettyShuffleMemorySegmentsTotal", "nettyShuffleMemoryAvailable"),
            *("nettyShuffleMemoryUsed", "nettyShuffleMemoryTotal"),
        ),
        0,
    ),
    "garbageCollectors": [],
}
