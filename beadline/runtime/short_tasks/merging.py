"""A worker merges files of state that have become many."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from beadline.runtime.messages import MergeRequest, MergeResult, RunContext
from beadline.runtime.worker import worker
from beadline.runtime.worker.garbage import no_collection
from beadline.state.segments.merging import merged
from beadline.state.segments.segment import SegmentWriter


def merge_in_worker(shipment: Any, context: RunContext, now: int, merge: MergeRequest) -> MergeResult:
    """Merge some segments of one handle into one file. Reads and writes immutable files only; may run twice."""
    execution = worker.enter_execution(context, shipment)
    with no_collection():
        return merge_runs(execution, context, now, merge)


def merge_runs(execution: worker.WorkerExecution, context: RunContext, now: int, merge: MergeRequest) -> MergeResult:
    groups = range(merge.max_parallelism) if merge.groups is None else range(*merge.groups)
    over = now if merge.from_root else None
    with execution.files.draft() as draft:
        writer = SegmentWriter(draft.write, merge.max_parallelism, by_key=True, codec=context.codec)
        parts = merged(merge.segments, groups, from_root=merge.from_root, now=over)
        for _, content in parts:
            writer.add(content)
        writer.finish()
        # A name of its own: a checkpoint that was left behind may have such a file too, and is about to delete it.
        made = draft.store(f"{draft.digest}-{uuid.uuid4().hex[:12]}.run", "", writer.entries)
        return MergeResult(merge, replace(made, groups=merge.groups))
