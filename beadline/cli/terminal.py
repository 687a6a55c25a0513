"""Lines at the foot of a terminal that are drawn again and again, while everything else is printed above them.

Standard output and standard error are replaced by streams that hide the lines before they write, and let them come back
after a whole line was written. What a program writes is passed on as it is: a prompt or a progress bar that leaves its
line open keeps the lines hidden until it ends the line.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

_HIDE = "\x1b[{}A\r\x1b[J"


class Footer:
    """The lines at the foot. ``terminal`` is the stream that they are written to."""

    def __init__(self, terminal: IO[str]) -> None:
        self._terminal = terminal
        self._lock = threading.RLock()
        self._height = 0
        self._open_line = False

    def draw(self, render: Callable[[], list[str]]) -> None:
        """Show these lines instead of those that are there, unless a program has left a line open."""
        with self._lock:
            if self._open_line:
                return
            lines = render()
            with contextlib.suppress(OSError, ValueError):  # the terminal may be gone; the job is not
                before = _HIDE.format(self._height) if self._height else ""
                self._terminal.write(before + "".join(f"{line}\n" for line in lines))
                self._terminal.flush()
            self._height = len(lines)

    def clear(self) -> None:
        with self._lock:
            if self._height:
                with contextlib.suppress(OSError, ValueError):
                    self._terminal.write(_HIDE.format(self._height))
                    self._terminal.flush()
                self._height = 0

    @contextlib.contextmanager
    def above(self, ends_line: bool | None) -> Iterator[None]:
        """Whoever writes to the terminal does so meanwhile; ``ends_line``: whether the last line is whole then."""
        with self._lock:
            self.clear()
            yield
            if ends_line is not None:
                self._open_line = not ends_line


class Above:
    """A stream whose output goes above the footer; in all else it is the stream that it replaces."""

    def __init__(self, stream: Any, footer: Footer) -> None:
        self._stream = stream
        self._footer = footer

    def write(self, data: Any) -> int:
        newline = "\n" if isinstance(data, str) else b"\n"
        with self._footer.above(data[-1:] == newline if data else None):
            written: int = self._stream.write(data)
            self._stream.flush()
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        return Above(self._stream.buffer, self._footer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stream)


@contextlib.contextmanager
def foot_of_terminal() -> Iterator[Footer]:
    """A footer on standard error, for as long as the block runs. Standard output is left alone if it goes elsewhere."""
    footer = Footer(sys.stderr)
    before = sys.stdout, sys.stderr
    sys.stderr = Above(sys.stderr, footer)
    if sys.stdout.isatty():
        sys.stdout = Above(sys.stdout, footer)
    try:
        yield footer
    finally:
        footer.clear()
        sys.stdout, sys.stderr = before
