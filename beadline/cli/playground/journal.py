"""What a job tells its listeners, written down line by line for whoever started its process."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from beadline.master.reporting.news import News


class Journal:
    """A listener that appends each event to a file, as JSON."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, event: News) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"event": type(event).__name__, **dataclasses.asdict(event)}) + "\n")


class JournalReader:
    """Reads what came since the last time. A line that is not complete yet is left for the next time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def new(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._at)
            lines = file.read().splitlines(keepends=True)
        complete = [line for line in lines if line.endswith(b"\n")]
        self._at += sum(map(len, complete))
        return [json.loads(line) for line in complete]
