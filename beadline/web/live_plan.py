"""The operators of a running job with their numbers, and its settings, for its record."""

from __future__ import annotations

import re
import socket

import xxhash

from beadline.common.secrets import masked
from beadline.graph.plan import PlanNode
from beadline.graph.specs import CollectSpec, PrintSpec, SinkSpec
from beadline.master.job import JobMaster
from beadline.master.reporting.progress import Progress, Rates
from beadline.web.record import (
    OPERATOR,
    SINK,
    SOURCE,
    CheckpointConfig,
    Edge,
    Metrics,
    Settings,
    Subtask,
    Vertex,
    Worker,
)


def vertex_id(uid: str) -> str:
    """The id of an operator, as Flink's look: 32 hexadecimal digits, the same for as long as its uid is."""
    return xxhash.xxh3_128_hexdigest(uid.encode())


def kind_of(node: PlanNode) -> str:
    if node.is_source:
        return SOURCE
    return SINK if isinstance(node.spec, PrintSpec | CollectSpec | SinkSpec) else OPERATOR


def vertices(master: JobMaster) -> list[Vertex]:
    """In the order in which records flow."""
    plan, truth, progress = master.plan, master.truth, master.results.progress
    rates, slots = progress.rates(), {place: slot for slot, place in enumerate(progress.places)}
    ids = {node.id: vertex_id(node.uid) for node in plan.nodes.values()}
    execution = master.running.execution if master.running is not None else None
    backlogs = execution.backlogs() if execution is not None else {}
    keys = dict(truth.keys_by_subtask) if truth is not None else {}
    handles = {} if truth is None else dict(truth.book.handles)
    states = {} if truth is None else dict(truth.book.states)
    found = []
    for number in (number for level in plan.levels for number in level):
        node = plan.nodes[number]
        vertex = Vertex(
            ids[number],
            node.name,
            node.uid,
            kind_of(node),
            _shape(node),
            node.level,
            node.parallelism,
            node.max_parallelism,
            node.keyed,
        )
        if (backlog := backlogs.get(number)) is not None:
            vertex.backlog, vertex.backlog_bytes = backlog.records, backlog.bytes
        for edge in node.inputs:
            how = type(edge.partitioning).__name__.upper()
            vertex.inputs.append(Edge(ids[edge.source], edge.input_index, how, edge.exchange, edge.tag))
        for index in range(node.parallelism):
            handle, state = handles.get((number, index)), states.get((number, index))
            subtask = _subtask(index, slots[number, index], progress, rates)
            subtask.keys = keys.get((number, index), 0)
            subtask.state_bytes = (handle.size if handle is not None else 0) + (state.size if state is not None else 0)
            vertex.subtasks.append(subtask)
        found.append(vertex)
    return found


def _subtask(index: int, slot: int, progress: Progress, rates: Rates) -> Subtask:
    now, totals = rates.now, progress.metrics.get(slot)
    busy = now.busy[slot]
    return Subtask(
        index,
        now.records_in[slot],
        now.records_out[slot],
        now.bytes_in[slot],
        now.bytes_out[slot],
        rates.per_second("records_in", slot),
        rates.per_second("records_out", slot),
        rates.per_second("bytes_in", slot),
        rates.per_second("bytes_out", slot),
        min(1.0, rates.per_second("busy", slot)),
        int(1000 * busy),
        int(1000 * max(0.0, rates.elapsed - busy)),
        progress.watermarks[slot],
        worker=progress.workers[slot],
        metrics=None if totals is None else Metrics(**totals.as_dict()),
    )


def workers(master: JobMaster) -> list[Worker]:
    """The processes that have run tasks of the job, the newest last."""
    here = socket.gethostname() if master.job.engine.one_machine else ""
    seen = list(master.results.progress.seen.values())
    return [Worker(worker.id, worker.executor, worker.pid, here, worker.at) for worker in seen]


def _shape(node: PlanNode) -> str:
    """What an operator does, in a word: ``IntervalJoinSpec`` is an ``interval join``."""
    name = type(node.spec).__name__.removesuffix("Spec")
    return str(getattr(node.spec, "shape", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))


def settings(master: JobMaster) -> Settings:
    given, plan = master.job.settings, master.plan
    checkpoints = given.checkpoints
    return Settings(
        batch=given.batch,
        parallelism=max(node.parallelism for node in plan.nodes.values()),
        restart_strategy=given.restart.in_words,
        state_backend=given.backend.kind,
        options=masked(given.options),
        origins=dict(given.origins),
        parameters=masked(plan.job_parameters),
        checkpoints=CheckpointConfig(
            enabled=checkpoints.enabled,
            interval_ms=checkpoints.interval_ms,
            exactly_once=checkpoints.exactly_once,
            timeout_ms=checkpoints.timeout_ms,
            min_pause_ms=checkpoints.min_pause_ms,
            max_concurrent=checkpoints.max_concurrent,
            tolerable_failures=checkpoints.tolerable_failures,
            retained=checkpoints.retained,
            retention=checkpoints.retention.name,
            unaligned=checkpoints.unaligned,
            aligned_timeout_ms=checkpoints.aligned_timeout_ms,
            after_tasks_finish=checkpoints.after_tasks_finish,
            storage=checkpoints.storage.value,
            directory=checkpoints.directory,
            savepoint_directory=checkpoints.savepoint_directory,
            history=checkpoints.history,
        ),
    )
