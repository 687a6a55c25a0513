"""The two clocks of a job, and what is made of them.

The *wall* clock says what time it is. People and daylight saving change it, and so may the machine that a virtual one
wakes up on. The *monotonic* one says how much time has passed, and nothing else. Whatever waits, expires or comes again
after some time is measured with the monotonic one; the wall clock is for times that people read and processing time.
"""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], int]


class ProcessingTime:
    """The processing time of steps: the wall clock, but it never goes back.

    Timers, windows and times to live rely on that: a merge drops entries that have expired, and no later step may find
    that they have not. If the wall clock is set back, processing time goes on from where it is at the pace of the
    monotonic clock, until the wall clock has caught up. It does not stand still meanwhile: a timer that is due in a
    second would then fire an hour later. If the wall clock jumps ahead, processing time follows, and timers up to then
    fire.
    """

    def __init__(self, wall: Clock, monotonic: Clock) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._ahead = wall() - monotonic()

    def __repr__(self) -> str:
        return f"<ProcessingTime {self()}, {self() - self._wall()} ms ahead of the wall clock>"

    def __call__(self) -> int:
        passed = self._monotonic()
        self._ahead = max(self._ahead, self._wall() - passed)
        return passed + self._ahead
