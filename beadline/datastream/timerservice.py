"""The clocks and timers of process functions, where PyFlink has them."""

from beadline.api.timer_service import TimerService

__all__ = ["TimerService"]
