"""An executor is killed: a local cluster of two executors with one core each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.recovery.jobs import STEP, differences, visible
from tests.recovery.running import Running
from tests.recovery.telling import tell_all
from tests.sessions import start_session


def a_killed_executor(folder: Path) -> dict[str, Any]:
    """In the middle of a step; later a function fails, so that the job goes back too."""
    records = 10 * STEP
    job = Running(folder, records, accidents={3 * STEP: "kill executor", 7 * STEP: "fail"})
    failed = job.end()
    accidents = sorted(path.name for path in folder.glob("accident-*"))
    problems = differences(visible(folder), records)
    return {"failed": failed, "problems": problems, "accidents": accidents, "restarts": job.restarts}


if __name__ == "__main__":
    session = start_session("local-cluster[2,1,1024]")
    tell_all([a_killed_executor])
    session.stop()
