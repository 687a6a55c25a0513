"""A sign of life: while a driver holds a job, it counts in a small file that others can look at."""

from __future__ import annotations

import contextlib
import threading

from beadline.state.segments.files import read_file, write_file

EVERY_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0


class Beat:
    """Counts in a file from a thread of its own, until it is stopped or the process dies."""

    def __init__(self, path: str, every: float = EVERY_SECONDS) -> None:
        self._path = path
        self._every = every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beadline-beat", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Beat {self._path}, {'stopped' if self._stopped.is_set() else 'going'}>"

    def stop(self) -> None:
        """Nothing is written afterwards, so that the file can be removed."""
        self._stopped.set()
        self._thread.join(_PATIENCE_SECONDS)

    def _run(self) -> None:
        count = 0
        while True:
            count += 1
            # A driver that misses a beat takes the job over and fences this one, which is safe.
            with contextlib.suppress(Exception):
                write_file(self._path, f"{count}\n".encode())
            if self._stopped.wait(self._every):
                return


def read_beat(path: str) -> bytes | None:
    """What the file holds now; None if there is none."""
    try:
        return read_file(path)
    except OSError:
        return None
