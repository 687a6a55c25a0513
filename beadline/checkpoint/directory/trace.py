"""What a job that has finished leaves: a small file that says so.

Without it nobody could tell a job that has finished from one that never ran: both have no checkpoints. The file is
written before the checkpoints are removed, when all output is visible, so that a crash in between leaves one or the
other. It counts unless a later driver has taken the job.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from beadline.checkpoint.contents.metadata import program_from_json, program_to_json
from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.ownership.lease import newest_claim
from beadline.graph.program import Program
from beadline.state.segments.files import join, read_file, sync, write_file

ENDED = "ended"
_FINISHED = "FINISHED"


@dataclass(frozen=True)
class Trace:
    """A job that has finished.

    :ivar time: when, in milliseconds
    :ivar epoch: of the driver that finished it
    :ivar chosen_id: whether the user chose the job's id
    """

    job_id: str
    job_name: str
    program: Program
    time: int
    epoch: int
    chosen_id: bool = False


def trace_path(folder: str) -> str:
    return join(folder, ENDED)


def write_trace(folder: str, trace: Trace) -> None:
    """Leave a trace in a job's folder that outlives a power cut. Only the holder of its lease may."""
    written = {
        "job_id": trace.job_id,
        "job_name": trace.job_name,
        "status": _FINISHED,
        "time": trace.time,
        "at": time_text(trace.time),
        "epoch": trace.epoch,
        "chosen_id": trace.chosen_id,
        "program": program_to_json(trace.program),
    }
    write_file(trace_path(folder), json.dumps(written, indent=1).encode() + b"\n", durable=True)
    sync(folder)


def read_trace(folder: str) -> Trace | None:
    """The trace in a job's folder; None if the job has not finished, or a later driver has taken it."""
    try:
        read: dict[str, Any] = json.loads(read_file(trace_path(folder)))
        trace = Trace(
            str(read["job_id"]),
            str(read["job_name"]),
            program_from_json(read["program"]),
            int(read["time"]),
            int(read["epoch"]),
            bool(read["chosen_id"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, SnapshotError):
        return None  # nothing that Beadline wrote
    except OSError as error:
        raise SnapshotError(f"can't tell whether the job in {folder} has finished: {error}") from error
    claim = newest_claim(folder)
    return trace if claim is None or claim.epoch <= trace.epoch else None


def time_text(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
