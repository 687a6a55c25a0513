"""Assigners of timestamps that many tests use."""

from __future__ import annotations

from typing import Any

from beadline.common.watermark_strategy import TimestampAssigner


class Itself(TimestampAssigner):
    """The element is its time."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class At(TimestampAssigner):
    """The second field of the element is its time."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])
