"""Waiting for a job in the program's main thread, and what Ctrl-C and SIGTERM do meanwhile."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from beadline.common.job_execution_result import JobExecutionResult
from beadline.master.control import JobSuspended, MasterControl

_LOG = logging.getLogger("beadline")


def wait_for_end(control: MasterControl) -> JobExecutionResult:
    """The result of a job once it has ended.

    :raises SystemExit: with 0, if it was asked to end and can be resumed
    """
    try:
        with _term_interrupts():
            _wait(control)
    except KeyboardInterrupt:
        _end(control)
        raise
    return control.result()


def _end(control: MasterControl) -> None:
    if not control.is_resumable():
        control.cancel().result()
        return
    _LOG.warning("stopping: a last checkpoint is taken; interrupt again to stop without it")
    control.suspend()
    try:
        with _term_interrupts():
            _wait(control)
    except KeyboardInterrupt:
        control.cancel().result()
        raise
    try:
        control.result()
    except JobSuspended as suspended:
        _LOG.warning("%s", suspended)
    raise SystemExit(0)


def _wait(control: MasterControl) -> None:
    while not control.has_ended():
        control.wait(0.2)


@contextmanager
def _term_interrupts() -> Iterator[None]:
    """SIGTERM is as good as Ctrl-C here, if the program has no handler of its own."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
