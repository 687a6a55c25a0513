"""What ``beadline run`` shows of its jobs while they run: a view on a terminal, a line every so often elsewhere.

A job that is over within a second is not worth a word. A job's events come in its own thread, which waits: they are
only noted there. A thread of this module shows them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from beadline.cli.progress import JobProgress
from beadline.cli.terminal import Footer, foot_of_terminal
from beadline.master import life
from beadline.master.client.presence import presence
from beadline.master.reporting import telling

if TYPE_CHECKING:
    from beadline.master.job import JobMaster
    from beadline.master.reporting.news import News, Watcher

_LOG = logging.getLogger("beadline")

_TICK_SECONDS = 0.25
#: A job that has run for less is not shown.
_SHORTEST_SECONDS = 1.0
#: Off a terminal a line comes this often; after some minutes less often.
_LINE_SECONDS, _LATER_LINE_SECONDS, _LATER = 10.0, 60.0, 600.0
#: For tests, and for those who want it otherwise.
_LINE_VARIABLE = "BEADLINE_PROGRESS_SECONDS"


@contextlib.contextmanager
def watching(quiet: bool = False) -> Iterator[None]:
    """Show the jobs that are started meanwhile, unless ``quiet``."""
    if quiet:
        yield
        return
    on_terminal = sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    with foot_of_terminal() if on_terminal else contextlib.nullcontext() as footer:
        watch = _Watch(footer)
        life.followers.append(watch.follow)
        if footer is not None:
            telling.around_writes = footer.above
        try:
            yield
        finally:
            telling.around_writes = telling.at_once
            life.followers.remove(watch.follow)
            watch.end()


class _Watch:
    """The jobs of this process, and the thread that shows them."""

    def __init__(self, footer: Footer | None) -> None:
        self._footer = footer
        self._jobs: dict[str, tuple[JobProgress, JobMaster]] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._said_address = False
        self._spoken_of: set[str] = set()
        self._next_line = 0.0

    def follow(self, job: JobMaster) -> Watcher:
        progress = JobProgress(job.plan.job_name, job.job_id)

        def watch(event: News) -> None:
            progress.add(event)
            if progress.ended is not None:
                self._has_ended(progress)

        self._jobs[job.job_id] = progress, job
        if self._thread is None:
            self._thread = threading.Thread(target=self._show, name="beadline-view", daemon=True)
            self._thread.start()
        return watch

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(2.0)
        for progress, _ in list(self._jobs.values()):
            self._has_ended(progress)

    # -- in the job's thread

    def _has_ended(self, progress: JobProgress) -> None:
        """Its last numbers stay above the view, if it was shown at all."""
        if self._jobs.pop(progress.job_id, None) is None:
            return
        if self._footer is not None and not self._jobs:
            self._footer.clear()
        if progress.job_id in self._spoken_of:
            _LOG.info("job '%s' after %s", progress.name, progress.line())

    # -- in its own thread

    def _show(self) -> None:
        while not self._over.wait(_TICK_SECONDS):
            shown = [each for each in list(self._jobs.values()) if each[0].seconds >= _SHORTEST_SECONDS]
            if not shown or _is_debugged():
                continue
            try:
                self._say_address()
                if self._footer is not None:
                    self._draw(shown, self._footer)
                else:
                    self._say_lines(shown)
            except Exception as error:  # a job does not suffer from how it is shown
                _LOG.debug("the view of the job can't be shown: %r", error)
                return

    def _draw(self, shown: list[tuple[JobProgress, JobMaster]], footer: Footer) -> None:
        from rich.console import Console

        from beadline.cli.view import rendered

        self._spoken_of.update(progress.job_id for progress, _ in shown)
        for progress, job in shown:
            progress.lag = _lag(job)
        terminal = Console(file=sys.__stderr__, force_terminal=True)
        still = [progress for progress, _ in shown if progress.job_id in self._jobs]
        footer.draw(lambda: rendered(still, terminal))

    def _say_lines(self, shown: list[tuple[JobProgress, JobMaster]]) -> None:
        now = time.monotonic()
        longest = max(progress.seconds for progress, _ in shown)
        pause = float(os.environ.get(_LINE_VARIABLE) or (_LINE_SECONDS if longest < _LATER else _LATER_LINE_SECONDS))
        if not self._next_line:
            self._next_line = now - _SHORTEST_SECONDS + pause
        if now < self._next_line:
            return
        self._next_line = now + pause
        for progress, job in shown:
            progress.lag = _lag(job)
            self._spoken_of.add(progress.job_id)
            _LOG.info("job '%s' after %s", progress.name, progress.line())

    def _say_address(self) -> None:
        """Once; with the token on a terminal only, because logs are read by others."""
        door = presence.door
        if door is None or self._said_address:
            return
        self._said_address = True
        if door.token and self._footer is not None:
            print(f"dashboard: {door.url}/#token={door.token}", file=sys.stderr)  # the log masks tokens
        else:
            _LOG.info("dashboard: %s", door.url)


def _lag(job: JobMaster) -> int | None:
    """How many records wait to be read, if all sources that read from outside can say."""
    from beadline.web.live import record_of

    known = [vertex.backlog for vertex in record_of(job).vertices if vertex.backlog is not None]
    return sum(known) if known else None


def _is_debugged() -> bool:
    """Whether somebody is at the prompt of a debugger, which the view would draw over."""
    for frame in sys._current_frames().values():
        at = frame
        while at is not None:
            if at.f_code.co_filename.endswith(("/bdb.py", "/pdb.py")):
                return True
            at = at.f_back  # type: ignore[assignment]
    return False
