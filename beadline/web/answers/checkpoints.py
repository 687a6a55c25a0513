"""``/jobs/:jid/checkpoints`` and what is below it.

How Flink's words apply: a checkpoint waits until the running step is sealed, which is its *alignment*; then all
subtasks have given their state at once, which took them no time (*sync*), and writing it is the *async* part. Subtasks
acknowledge together, when the checkpoint is complete.
"""

from __future__ import annotations

from collections.abc import Sequence

from beadline.web.answers.summary import summarized
from beadline.web.answers.words import Json, NotFound, settings_of, vertex_of
from beadline.web.record import Checkpoint, JobRecord, OperatorState, Vertex

#: What Flink gives as the interval if the clock takes no checkpoints.
NEVER = 2**63 - 1
_ANY_NUMBER = 2**31 - 1
_BACKENDS = {"hashmap": "HashMapStateBackend", "rocksdb": "EmbeddedRocksDBStateBackend"}
_STORAGES = {"jobmanager": "JobManagerCheckpointStorage", "filesystem": "FileSystemCheckpointStorage"}
_ENDS_JOB = ("savepoint on stop", "savepoint on cancel")


def statistics(record: JobRecord) -> Json:
    """``/jobs/:jid/checkpoints``"""
    done = [checkpoint for checkpoint in record.checkpoints if checkpoint.status == "COMPLETED"]
    counts = record.counts
    return {
        "counts": {
            "restored": counts.restored,
            "total": counts.triggered,
            "in_progress": sum(each.status == "IN_PROGRESS" for each in record.checkpoints),
            "completed": counts.completed,
            "failed": counts.failed,
        },
        "summary": {
            "checkpointed_size": summarized([each.size or 0 for each in done]),
            "state_size": summarized([each.full_size or 0 for each in done]),
            "end_to_end_duration": summarized([each.duration_ms or 0 for each in done]),
            "alignment_buffered": summarized([0 for _ in done]),
            "processed_data": summarized([0 for _ in done]),
            "persisted_data": summarized([0 for _ in done]),
        },
        "latest": _latest(record, done),
        "history": [_line(record, checkpoint) for checkpoint in record.checkpoints],
    }


def _latest(record: JobRecord, done: Sequence[Checkpoint]) -> Json:
    failed = (each for each in record.checkpoints if each.status == "FAILED")
    newest = {
        "completed": next((each for each in done if not each.savepoint), None),
        "savepoint": next((each for each in done if each.savepoint), None),
        "failed": next(failed, None),
    }
    found: Json = {name: None if each is None else _line(record, each) for name, each in newest.items()}
    return {**found, "restored": _restored(record)}


def _restored(record: JobRecord) -> Json | None:
    start = next((start for start in reversed(record.starts) if start.checkpoint is not None), None)
    if start is None or start.checkpoint is None:
        return None
    known = record.checkpoint(start.checkpoint)
    path = start.path or (known.path if known is not None else None)
    return {
        "id": start.checkpoint,
        "restore_timestamp": start.at,
        "is_savepoint": start.savepoint,
        "external_path": path or "",
    }


def _line(record: JobRecord, checkpoint: Checkpoint) -> Json:
    subtasks = sum(vertex.parallelism for vertex in record.vertices)
    line: Json = {
        "className": checkpoint.status.lower(),
        "id": checkpoint.id,
        "status": checkpoint.status,
        "is_savepoint": checkpoint.savepoint,
        "savepointFormat": _format(checkpoint),
        "trigger_timestamp": checkpoint.triggered_at,
        **_progress(record, checkpoint),
        "checkpointed_size": checkpoint.size or 0,
        "state_size": checkpoint.full_size or 0,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": subtasks,
        "num_acknowledged_subtasks": subtasks if checkpoint.status == "COMPLETED" else 0,
        "checkpoint_type": _type(checkpoint),
        "tasks": {},
    }
    if checkpoint.status == "COMPLETED":
        line.update(external_path=checkpoint.path or "<checkpoint-not-externally-addressable>")
        line.update(discarded=checkpoint.discarded)
    elif checkpoint.status == "FAILED":
        line.update(failure_timestamp=checkpoint.ended_at, failure_message=checkpoint.failure)
    return line


def _progress(record: JobRecord, checkpoint: Checkpoint) -> Json:
    """How long it has taken so far, and when the last subtask acknowledged it."""
    complete = checkpoint.status == "COMPLETED"
    so_far = record.now - checkpoint.triggered_at if checkpoint.duration_ms is None else checkpoint.duration_ms
    return {
        "latest_ack_timestamp": checkpoint.ended_at if complete else -1,
        "end_to_end_duration": max(0, so_far),
    }


def _type(checkpoint: Checkpoint) -> str:
    if not checkpoint.savepoint:
        return "UNALIGNED_CHECKPOINT" if checkpoint.in_flight is not None else "CHECKPOINT"
    return "SYNC_SAVEPOINT" if checkpoint.type in _ENDS_JOB else "SAVEPOINT"


def _format(checkpoint: Checkpoint) -> str | None:
    return (checkpoint.format or "CANONICAL") if checkpoint.savepoint else None


def config(record: JobRecord) -> Json:
    """``/jobs/:jid/checkpoints/config``"""
    settings = settings_of(record).checkpoints
    tolerable = settings.tolerable_failures
    return {
        "mode": "exactly_once" if settings.exactly_once else "at_least_once",
        "interval": NEVER if settings.interval_ms is None else settings.interval_ms,
        "timeout": settings.timeout_ms,
        "min_pause": settings.min_pause_ms,
        "max_concurrent": settings.max_concurrent,
        "externalization": {
            "enabled": settings.retention != "NO_EXTERNALIZED_CHECKPOINTS",
            "delete_on_cancellation": settings.retention != "RETAIN_ON_CANCELLATION",
        },
        "state_backend": _BACKENDS.get(record.settings.state_backend, record.settings.state_backend),
        "checkpoint_storage": _STORAGES.get(settings.storage, settings.storage),
        "unaligned_checkpoints": settings.unaligned,
        "tolerable_failed_checkpoints": _ANY_NUMBER if tolerable is None else tolerable,
        "aligned_checkpoint_timeout": settings.aligned_timeout_ms,
        "checkpoints_after_tasks_finish": settings.after_tasks_finish,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": 0,
        "changelog_storage": "memory",
    }


def details(record: JobRecord, checkpoint_id: int) -> Json:
    """``/jobs/:jid/checkpoints/details/:cid``"""
    checkpoint = _checkpoint(record, checkpoint_id)
    held = {state.vertex: state for state in checkpoint.operators}
    return {
        **_line(record, checkpoint),
        "tasks": {
            vertex.id: _task(record, checkpoint, vertex, held.get(vertex.id, OperatorState(vertex.id)))
            for vertex in record.vertices
        },
    }


def _checkpoint(record: JobRecord, id: int) -> Checkpoint:
    found = record.checkpoint(id)
    if found is None:
        raise NotFound(f"Could not find checkpointing statistics for checkpoint {id}: it never was, or is too old")
    return found


def _task(record: JobRecord, checkpoint: Checkpoint, vertex: Vertex, held: OperatorState) -> Json:
    return {
        "id": checkpoint.id,
        "status": checkpoint.status,
        **_progress(record, checkpoint),
        "checkpointed_size": sum(held.written),
        "state_size": sum(held.sizes),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": len(held.sizes) or vertex.parallelism,
        "num_acknowledged_subtasks": (len(held.sizes) or vertex.parallelism) if checkpoint.status == "COMPLETED" else 0,
    }


def subtasks(record: JobRecord, checkpoint_id: int, vertex_id: str) -> Json:
    """``/jobs/:jid/checkpoints/details/:cid/subtasks/:vid``"""
    checkpoint, vertex = _checkpoint(record, checkpoint_id), vertex_of(record, vertex_id)
    held = next((state for state in checkpoint.operators if state.vertex == vertex.id), OperatorState(vertex.id))
    number = len(held.sizes) or vertex.parallelism
    complete = checkpoint.status == "COMPLETED"
    each = [_subtask(checkpoint, held, index) if complete else _pending(index) for index in range(number)]
    return {
        **_task(record, checkpoint, vertex, held),
        "summary": _summary([one for one in each if one["className"] == "completed"]),
        "subtasks": each,
    }


def _pending(index: int) -> Json:
    return {"className": "pending", "index": index, "status": "pending_or_failed"}


def _subtask(checkpoint: Checkpoint, held: OperatorState, index: int) -> Json:
    aligned = checkpoint.alignment_ms or 0
    duration = checkpoint.duration_ms or 0
    return {
        "className": "completed",
        "index": index,
        "ack_timestamp": checkpoint.ended_at,
        "end_to_end_duration": duration,
        "checkpointed_size": held.written[index] if index < len(held.written) else 0,
        "state_size": held.sizes[index] if index < len(held.sizes) else 0,
        "checkpoint": {"sync": 0, "async": max(0, duration - aligned)},
        "alignment": {"buffered": 0, "processed": 0, "persisted": 0, "duration": aligned},
        "start_delay": 0,
        "unaligned_checkpoint": checkpoint.in_flight is not None,
        "aborted": False,
        "status": "completed",
    }


def _summary(subtasks: Sequence[Json]) -> Json:
    def over(*names: str) -> Json:
        values = []
        for subtask in subtasks:
            value = subtask
            for name in names:
                value = value[name]
            values.append(value)
        return summarized(values)  # type: ignore[arg-type]

    return {
        "checkpointed_size": over("checkpointed_size"),
        "state_size": over("state_size"),
        "end_to_end_duration": over("end_to_end_duration"),
        "checkpoint_duration": {"sync": over("checkpoint", "sync"), "async": over("checkpoint", "async")},
        "alignment": {name: over("alignment", name) for name in ("buffered", "processed", "persisted", "duration")},
        "start_delay": over("start_delay"),
    }
