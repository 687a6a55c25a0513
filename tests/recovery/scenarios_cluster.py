"""An executor is killed in the middle of a step; later a function fails, so that the job goes back too.

A local cluster of two executors with one core each, in a process of its own.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.recovery.jobs import STEP
from tests.recovery.running import Running
from tests.sessions import start_session

if __name__ == "__main__":
    session = start_session("local-cluster[2,1,1024]")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        job = Running(Path(name), 10 * STEP, accidents={3 * STEP: "kill executor", 7 * STEP: "fail"})
        job.finish()
        accidents = sorted(path.name for path in Path(name).glob("accident-*"))
    print(json.dumps({"name": "a killed executor", "accidents": accidents, "restarts": len(job.restarts)}))
    session.stop()
