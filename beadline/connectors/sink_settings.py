"""Options of all sinks."""

from __future__ import annotations

from dataclasses import dataclass

from beadline.common.configuration import Configuration
from beadline.errors import ConfigurationError

MAX_STAGED = "beadline.sink.max-staged-size"
UNKNOWN = "beadline.sink.unknown-transactions"
KEYS = frozenset({MAX_STAGED, UNKNOWN})

FAIL, WRITE_AGAIN, SKIP = "fail", "write-again", "skip"


@dataclass(frozen=True)
class SinkSettings:
    """What holds for all sinks of a job.

    :ivar max_staged: bytes that may wait for a checkpoint to complete; if there are more, no step begins
    :ivar unknown: what to do about a transaction of which nobody can tell any more whether it was committed
    """

    max_staged: int = 2 << 30
    unknown: str = FAIL

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> SinkSettings:
        unknown = configuration.get_string(UNKNOWN, FAIL).lower()
        if unknown not in (FAIL, WRITE_AGAIN, SKIP):
            raise ConfigurationError(f"{UNKNOWN} must be {FAIL}, {WRITE_AGAIN} or {SKIP}, got {unknown!r}")
        max_staged = configuration.get_memory_bytes(MAX_STAGED, cls.max_staged)
        if max_staged < 1:
            raise ConfigurationError(f"{MAX_STAGED} must be positive, got {max_staged}")
        return cls(max_staged, unknown)
