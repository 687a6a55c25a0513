from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beadline.common.job_id import JobID

__all__ = ["JobExecutionResult"]


class JobExecutionResult:
    """How long a job ran, and its accumulators."""

    def __init__(self, job_id: JobID, runtime_ms: int, accumulators: Mapping[str, Any] | None = None) -> None:
        self._job_id = job_id
        self._runtime_ms = runtime_ms
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        return self._job_id

    def get_net_runtime(self) -> int:
        """Milliseconds from the start of the job to its end."""
        return self._runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """The value of one accumulator; None if there is none of that name."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        return dict(self._accumulators)

    def __str__(self) -> str:
        lines = [
            "Program execution finished",
            f"Job with JobID {self._job_id} has finished.",
            f"Job Runtime: {self._runtime_ms} ms",
        ]
        if self._accumulators:
            lines.append("Accumulator Results:")
            lines.extend(f"- {name}: {value}" for name, value in self._accumulators.items())
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        return f"JobExecutionResult({self._job_id}, {self._runtime_ms} ms, {self._accumulators})"
