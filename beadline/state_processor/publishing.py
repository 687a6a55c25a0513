"""From drafts to a savepoint's folder: it is made under another name, and appears when it is complete."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame

from beadline.checkpoint.contents.canonical import settle, take_in, tasks_of
from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot, SnapshotError
from beadline.checkpoint.directory.lookup import canonical
from beadline.checkpoint.storage.durable import Bundle
from beadline.checkpoint.storage.publishing import publish_savepoint
from beadline.runtime.short_tasks.exporting import Export, Exported, KeyedExport
from beadline.state.cells import declared
from beadline.state.segments.files import is_folder, join, local_path, safe_name, size_of
from beadline.state_processor.drafts import OperatorDraft, operator_states
from beadline.state_processor.entries import (
    ENTRIES,
    REPORTS,
    EntryExports,
    Report,
    TableRows,
    Target,
    TimerRows,
    existing_rows,
    planned_exports,
)
from beadline.state_processor.slices import slices_of
from beadline.state_processor.tasks import Tasks


def check_free(path: str) -> str:
    """Where the savepoint goes; nothing may be there."""
    folder = canonical(path)
    local = local_path(folder)
    taken = os.path.lexists(local) if local is not None else is_folder(folder) or size_of(folder) is not None
    if taken:
        raise SnapshotError(f"{path} exists already. Nothing is ever overwritten: choose another path, or remove it")
    return folder


def publish(tasks: Tasks, snapshot: Snapshot, drafts: Sequence[OperatorDraft], folder: str) -> str:
    """Write a savepoint of what the drafts say; ``snapshot`` has the rest."""
    shells = [replace(draft.shell(), operator_state=operator_states(draft)) for draft in drafts]

    def fill(shell: Snapshot, bundle: Bundle) -> tuple[Snapshot, int]:
        now = int(time.time() * 1000)
        exports, results = _take_over(tasks, shell, bundle.folder, now)
        operators = list(shell.operators)
        for number, draft in enumerate(drafts):
            if draft.rewrites_keys:
                reports = _put_together(tasks, number, draft, operators[number], bundle.folder, now)
                operators[number] = _with_timers(operators[number], reports)
                for report in reports:
                    exports += report.exports
                    results += report.results
        made = take_in(replace(shell, operators=tuple(operators)), exports, results, bundle.published)
        settle(bundle.folder, made)
        return made, made.size

    return publish_savepoint(replace(snapshot, operators=tuple(shells)), folder, fill).pointer


def _take_over(tasks: Tasks, shell: Snapshot, staged: str, now: int) -> tuple[list[Export], list[Exported]]:
    planned = tasks_of(shell, staged)
    if not planned:
        return [], []
    reports = _run(tasks.over(list(enumerate(planned)), partial(planned_exports, now), REPORTS))
    reports.sort(key=lambda report: report.task)
    return [export for task in planned for export in task], [result for report in reports for result in report.results]


def _put_together(
    tasks: Tasks, number: int, draft: OperatorDraft, shell: OperatorSnapshot, staged: str, now: int
) -> list[Report]:
    """Export keyed state that is new, together with what is kept: by subtask and key group."""
    target = Target(shell.parallelism, shell.max_parallelism)
    key_type = declared(draft.key_type)
    frames = []
    if any(handle is not None and handle.segments for handle in draft.base.keyed):
        kept = partial(existing_rows, target, draft.left_out)
        frames.append(tasks.over(slices_of(draft.base, tasks.slots), kept, ENTRIES))
    for made in draft.tables.values():
        state = made.state
        rows = TableRows(
            target,
            state,
            f"state '{state.name}' of operator '{draft.uid}'",
            key_type,
            declared(state.type),
            declared(state.map_key_type),
            None if state.ttl_ms is None else now,
        )
        frames.append(tasks.through(made.df, rows, ENTRIES))
    if draft.timers is not None:
        timers = TimerRows(target, f"the timers of operator '{draft.uid}'", key_type, draft.timers.windowed)
        frames.append(tasks.through(draft.timers.df, timers, ENTRIES))
    if not frames:
        return []
    ordered = (
        reduce(DataFrame.unionAll, frames)
        .repartitionById(target.parallelism, "part")
        .sortWithinPartitions("part", "key_group", "table", "encoded")
    )
    names = {name for states in shell.operator_state if states is not None for name in states.states}
    request = KeyedExport(
        number,
        0,
        join(staged, safe_name(draft.uid)),
        (0, 0),
        (),
        target.max_parallelism,
        draft.key_type,
        tuple(state for state in shell.state_descriptions if state.scope == "keyed"),
        frozenset(map(safe_name, names)),
    )
    return _run(tasks.through(ordered, EntryExports(draft.uid, request, now), REPORTS))


def _run(reports: DataFrame) -> list[Report]:
    """What tasks report; a problem that one of them met is raised here."""
    rows = reports.collect()
    for row in rows:
        if row.problem is not None:
            raise SnapshotError(row.problem)
    return [pickle.loads(row.report) for row in rows]


def _with_timers(operator: OperatorSnapshot, reports: list[Report]) -> OperatorSnapshot:
    """The job has to wake when the first timer is due."""
    due: dict[int, int] = {}
    for report in reports:
        for subtask, timer in report.timers.items():
            due[subtask] = min(timer, due.get(subtask, timer))
    return replace(operator, next_timers=tuple(due.get(subtask) for subtask in range(operator.parallelism)))
