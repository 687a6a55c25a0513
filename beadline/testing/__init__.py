"""Tools for the tests of your own programs.

- :class:`KeyedHarness` and :class:`Harness` run a function or a piece of a program element by element.
- :class:`TestSource` is a source whose script says which records come, where steps end and where a task crashes.
- :class:`VerifyingSink` gathers what was committed, and compares it with what should have been.

The harnesses need no Spark. Nor do whole jobs, if the environment variable ``BEADLINE_ENGINE`` is ``local``.
"""

from __future__ import annotations

from beadline.testing.harness import Harness
from beadline.testing.keyed_harness import KeyedHarness, Timer
from beadline.testing.sink import VerifyingSink
from beadline.testing.source import At, AwaitCheckpoint, Crash, EndStep, Pause, TestCrash, TestSource

__all__ = [
    "At",
    "AwaitCheckpoint",
    "Crash",
    "EndStep",
    "Harness",
    "KeyedHarness",
    "Pause",
    "TestCrash",
    "TestSource",
    "Timer",
    "VerifyingSink",
]
