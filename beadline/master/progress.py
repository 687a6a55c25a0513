"""What the job master reports as it goes: one report a sealed step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class StepReport:
    """One sealed step, in numbers.

    :ivar records: records that sources read
    :ivar keys: entries in keyed state, over all operators
    :ivar state_bytes: size of the runs behind the current versions
    :ivar tries: how often the step was run
    :ivar places: the executor of each subtask of the last level
    """

    job_name: str
    step: int
    records: int
    total_records: int
    seconds: float
    keys: int
    touched: int
    state_bytes: int
    watermark: int | None
    tries: int
    final: bool
    places: dict[int, str]
    workers: dict[int, int]


Listener = Callable[[StepReport], None]
