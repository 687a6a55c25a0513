"""What is printed in a task: by user code, with ``print()``, and by print sinks. Both in the order in which they came.

The text travels in the acknowledgement. The driver shows it when the step is sealed, so an attempt that Spark repeats
prints nothing twice; if user code fails, the driver shows what user code had printed until then.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, TextIO

LIMIT = 1 << 20


class Printed:
    """The text of one task in one step.

    :param limit: how many characters of user code's own text are kept; print sinks are not limited
    """

    def __init__(self, limit: int = LIMIT) -> None:
        # User code's pieces and the sinks' take turns: (whether it is a sink's, text).
        self._pieces: list[tuple[bool, str]] = []
        self._limit = limit
        self._room = limit
        self._cut = 0

    def say(self, text: str) -> None:
        kept = text[: self._room]
        self._room -= len(kept)
        self._cut += len(text) - len(kept)
        if kept:
            self._pieces.append((False, kept))

    def lines(self, lines: list[str]) -> None:
        if lines:
            self._end_line()
            self._pieces.append((True, "\n".join(lines) + "\n"))

    def finish(self) -> list[tuple[bool, str]]:
        """All the text, ended with a line break: the next text is another subtask's."""
        self._end_line()
        if self._cut:
            note = (
                f"… {self._cut:,} more characters were printed here and are left out: functions may print "
                f"{self._limit:,} in one task of a step. Print less, or use logging, which writes to standard error.\n"
            )
            self._pieces.append((False, note))
        turns = groupby(self._pieces, key=itemgetter(0))
        return [(by_sink, "".join(text for _, text in pieces)) for by_sink, pieces in turns]

    def _end_line(self) -> None:
        if self._pieces and not self._pieces[-1][1].endswith("\n"):
            self._pieces.append((False, "\n"))


class WorkerOutput(io.TextIOBase):
    """The standard output of a worker process. In a task it gathers text, and otherwise hands it to ``outside``.

    It stays in place between tasks, because what user code sets up once, such as a logging handler, holds on to it.
    """

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, outside: TextIO) -> None:
        self._outside = outside
        self.task: Printed | None = None
        self.buffer = _Bytes(self)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._outside.fileno()

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        task = self.task
        if task is not None:
            task.say(text)
            return len(text)
        return self._outside.write(text)

    def flush(self) -> None:
        if self.task is None:
            self._outside.flush()

    def close(self) -> None:
        """It is the process's: it stays open."""


class _Bytes(io.RawIOBase):
    """``sys.stdout.buffer``."""

    def __init__(self, text: WorkerOutput) -> None:
        self._text = text

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._text.write(raw.decode("utf-8", "replace"))
        return len(raw)


def install() -> WorkerOutput:
    """Make the worker's ``sys.stdout`` one that tasks can gather from."""
    if not isinstance(sys.stdout, WorkerOutput):
        sys.stdout = WorkerOutput(sys.stdout)
    return sys.stdout


class _SharedOutput(WorkerOutput):
    """The standard output of a process that is driver and worker at once: what another thread than the task's prints,
    or a debugger, is no task's."""

    def __init__(self, outside: TextIO) -> None:
        super().__init__(outside)
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        if threading.get_ident() != self._thread or _called_by_debugger():
            written = self._outside.write(text)
            self._outside.flush()
            return written
        return super().write(text)


def _called_by_debugger() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") == "bdb":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


@contextlib.contextmanager
def gathered(printed: Printed) -> Iterator[None]:
    """Gather what this process prints; a worker runs one task at a time."""
    output = install()
    output.task = printed
    try:
        yield
    finally:
        if output.task is printed:  # an abandoned task may end after the next one has begun
            output.task = None


@contextlib.contextmanager
def gathered_here(printed: Printed) -> Iterator[None]:
    """Gather what a task prints in the driver's own process."""
    before = sys.stdout
    output = sys.stdout = _SharedOutput(before)
    try:
        with gathered(printed):  # after it, whoever has kept the output writes to where it did before
            yield
    finally:
        if sys.stdout is output:
            sys.stdout = before
