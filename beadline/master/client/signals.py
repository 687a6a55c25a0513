"""Jobs end in good order when their process is told to end: by SIGTERM, by Ctrl-C, or because the program is over.

A signal does not cancel a job: after an eviction, a deploy or an interrupt it is to go on later. So each job
takes a last checkpoint, if its checkpoints outlive the process, and keeps what is needed to resume it.

Python runs signal handlers in the main thread, between any two of its instructions, so that the thread may hold any
lock, even one that a job needs to end. So the handler only passes the signal on to a thread that waits for it.
When the jobs have ended, that thread interrupts the main one, which exits then.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
import time
from queue import Empty, SimpleQueue
from typing import Any

from beadline.common.job_execution_result import JobExecutionResult
from beadline.master import life
from beadline.master.client.control import MasterControl
from beadline.master.job import JobMaster

_LOG = logging.getLogger("beadline")

# A main thread that waits for a job ends by itself when the job has.
_MAIN_ENDS_BY_ITSELF = 0.3
# How long a program that is over waits for last checkpoints.
_PATIENCE = 60.0
_LAST_PATIENCE = 15.0


def wait_for_end(control: MasterControl) -> JobExecutionResult:
    """The result of a job once it has ended. Ctrl-C ends it meanwhile: with SystemExit(0), if it can be resumed."""
    try:
        _wait(control)
    except KeyboardInterrupt:
        _interrupted(control)
        raise
    finally:
        guard.step_back()
    return control.result()


def _interrupted(control: MasterControl) -> None:
    if not control.suspend():
        _wait(control)
        return
    _LOG.warning("stopping: a last checkpoint is taken; press Ctrl-C again to stop without it")
    try:
        _wait(control)
    except KeyboardInterrupt:
        control.suspend(at_once=True)
        _wait(control)
        raise
    control.result()
    raise SystemExit(0)  # it came to its end instead


def _wait(control: MasterControl) -> None:
    while not control.has_ended():
        control.wait(0.2)


class _Guard:
    """What this process does about signals while it has jobs; ``_told`` counts the SIGTERMs since it last had none."""

    def __init__(self) -> None:
        self._process = 0
        self._signals: SimpleQueue[int] = SimpleQueue()
        self._told = 0
        self._exit_code: int | None = None
        self._program_is_over = False
        self._before: dict[int, Any] = {}

    def take_over(self) -> None:
        """A job is about to start in this thread: let it end in good order when the process is told to end. SIGTERM is
        handled if the thread is the main one, because Python lets no other set handlers, and if the program has no
        handler of its own."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._signals, self._told, self._exit_code = SimpleQueue(), 0, None
            _when_program_is_over(self._end_with_program)
            threading.Thread(target=self._heed, name="beadline-signals", daemon=True).start()
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._terminate)
        # PySpark's handler cancels every Spark job first: the running step, and output that is being published.
        if str(getattr(signal.getsignal(signal.SIGINT), "__module__", "")).startswith("pyspark."):
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)

    def step_back(self) -> None:
        """Restore what was there before, if no job runs and this thread can. If not, the handlers below do as if."""
        if life.jobs or self._told or threading.current_thread() is not threading.main_thread():
            return
        for number, ours in ((signal.SIGTERM, self._terminate), (signal.SIGINT, self._interrupt)):
            if signal.getsignal(number) == ours:
                signal.signal(number, self._before[number])

    # -- in the main thread, at any moment: no locks

    def _terminate(self, number: int, frame: Any) -> None:
        code = self._exit_code
        if code is not None:
            self._told, self._exit_code = 0, None
            if not self._program_is_over:
                raise SystemExit(code)
            return
        self._told += 1
        if os.getpid() != self._process or self._told > 2 or (self._told == 1 and not life.jobs):
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        else:
            self._signals.put(number)

    def _interrupt(self, number: int, frame: Any) -> None:
        handler = signal.default_int_handler if life.jobs else self._before[number]
        handler(number, frame)

    # -- in a thread of its own

    def _heed(self) -> None:
        while True:
            self._signals.get()
            _say("stopping: a last checkpoint is taken; send SIGTERM again to stop without it")
            code = self._end_jobs()
            time.sleep(_MAIN_ENDS_BY_ITSELF)
            self._exit_code = code
            if not self._program_is_over:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def _end_jobs(self) -> int:
        seen: dict[JobMaster, None] = {}
        at_once = stuck = False
        while life.jobs:
            for job in list(life.jobs):
                seen[job] = None
                job.suspend(at_once)
                if job.is_overdue:
                    stuck = True
                    _leave(job)
            try:
                self._signals.get(timeout=0.05)
                at_once = True
            except Empty:
                pass
        return max((job.exit_code for job in seen), default=0) or int(stuck)

    # -- in the main thread, when it has nothing more to do

    def _end_with_program(self) -> None:
        """The threads of jobs do not keep the process alive, and would be cut off in the middle of a step."""
        self._program_is_over = True
        if os.getpid() != self._process or not life.jobs:
            return
        if not self._told:
            _say("the program is over and its job still runs: a last checkpoint is taken, then the job is stopped")
        for at_once, patience in ((False, _PATIENCE), (True, _LAST_PATIENCE)):
            deadline = time.monotonic() + patience
            try:
                while life.jobs and time.monotonic() < deadline:
                    for job in list(life.jobs):
                        job.suspend(at_once)
                    time.sleep(0.05)
            except KeyboardInterrupt:
                continue


def _say(text: str) -> None:
    if any(job.is_resumable for job in list(life.jobs)):
        _LOG.warning(text)


def _leave(job: JobMaster) -> None:
    """End the process without a job whose thread waits for something that has no time limit."""
    life.jobs.pop(job, None)
    newest = job.last_checkpoint if job.is_resumable else None
    how = f"resume it with -s {newest}" if newest is not None else "it has no checkpoint to resume it from"
    _LOG.error(
        "job '%s' does not end: its driver waits for a system outside. The process ends; %s", job.plan.job_name, how
    )


def _when_program_is_over(action: Any) -> None:
    # It must run before the threads of pools end, which jobs need; only a private call runs so early.
    getattr(threading, "_register_atexit", atexit.register)(action)


guard = _Guard()
