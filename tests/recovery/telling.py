"""Scenarios that share a Spark session in a process of their own, and tell their facts in lines of JSON."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.recovery.running import cancel_all

Scenario = Callable[[Path], dict[str, Any]]


def tell_all(scenarios: list[Scenario]) -> None:
    """Run the scenarios that are named on the command line, or all of them."""
    log = _Log()
    logging.getLogger("beadline").addHandler(log)
    logging.getLogger("beadline").setLevel(logging.INFO)
    for scenario in scenarios:
        if len(sys.argv) > 1 and scenario.__name__ not in sys.argv[1:]:
            continue
        started = time.monotonic()
        log.lines.clear()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                facts = scenario(Path(folder))
            except Exception:
                facts = {"error": traceback.format_exc()}
            finally:
                cancel_all()
        facts |= {"name": scenario.__name__, "seconds": round(time.monotonic() - started, 1), "log": log.lines}
        print(json.dumps(facts), flush=True)


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
