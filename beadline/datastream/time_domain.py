"""Which clock a timer follows, where PyFlink has it."""

from beadline.api.time_domain import TimeDomain

__all__ = ["TimeDomain"]
