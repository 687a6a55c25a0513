"""What it costs a job to be watched: the keyed count with the server off, with the server on and nobody there, and with
an open dashboard: its stream of events, and what it asks every second.

    python bench/watched.py --records 4000000 --turns 3
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import data  # noqa: E402

PAGES = ("", "/beadline", "/beadline/vertices", "/beadline/timeline", "/checkpoints", "/exceptions")


class Dashboard:
    """Asks as the page does, about whichever job has just registered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._over = threading.Event()
        self.answers = self.events = 0
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._ask, self._listen)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(5)

    def _job(self) -> str | None:
        for path in (self._folder / "jobs").glob("*.json"):
            try:
                entry = json.loads(path.read_text())
            except (OSError, ValueError):
                continue
            return f"{entry['url']}/jobs/{entry['job_id']}"
        return None

    def _ask(self) -> None:
        with httpx.Client(timeout=5) as client:
            while not self._over.wait(1.0):
                job = self._job()
                for page in PAGES if job else ():
                    try:
                        self.answers += client.get(job + page).status_code == 200
                    except httpx.HTTPError:
                        break

    def _listen(self) -> None:
        while not self._over.wait(0.2):
            job = self._job()
            if job is None:
                continue
            try:
                with httpx.stream("GET", f"{job}/beadline/events", timeout=5) as answer:
                    for line in answer.iter_lines():
                        self.events += line.startswith("event:")
                        if self._over.is_set():
                            return
            except httpx.HTTPError:
                continue


def rate(path: Path, folder: Path, watched: bool, *options: str) -> tuple[int, int, int]:
    """Records per second, and what a dashboard got meanwhile."""
    command = [sys.executable, "-m", "beadline.cli.main", "run", "--pyflink", *options]
    command += [str(HERE / "pyflink_keyed_count.py"), str(path)]
    dashboard = Dashboard(folder) if watched else None
    environment = {**os.environ, "BEADLINE_STATE_DIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if dashboard is not None:
        dashboard.close()
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    report: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return report["records_per_second"], dashboard.answers if dashboard else 0, dashboard.events if dashboard else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    off, on, watched = [], [], []
    answers = events = 0
    with tempfile.TemporaryDirectory() as temporary:
        path, folder = Path(temporary) / "input.csv", Path(temporary) / "state"
        data.write(path, arguments.records, arguments.keys)
        for _ in range(arguments.turns):
            off.append(rate(path, folder, False, "-D", "beadline.rest.enabled=false")[0])
            on.append(rate(path, folder, False)[0])
            result, asked, heard = rate(path, folder, True)
            watched.append(result)
            answers, events = answers + asked, events + heard
    best = {"off": max(off), "on": max(on), "watched": max(watched)}
    report = {
        "records_per_second": {"off": off, "on": on, "watched": watched},
        "medians": {"off": statistics.median(off), "on": statistics.median(on), "watched": statistics.median(watched)},
        "best_of_off": {name: round(value / best["off"], 3) for name, value in best.items()},
        "answers": answers,
        "events": events,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
