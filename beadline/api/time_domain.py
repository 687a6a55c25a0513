from enum import Enum


class TimeDomain(Enum):
    """The clock of a timer that fires: ask for it with ``ctx.time_domain()`` in ``on_timer``."""

    EVENT_TIME = 0
    """The timer fired because the watermark reached its timestamp."""

    PROCESSING_TIME = 1
    """The timer fired because the step's processing time reached its timestamp."""
