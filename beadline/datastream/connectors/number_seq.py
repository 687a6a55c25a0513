"""A sequence of numbers."""

from __future__ import annotations

from beadline.common.typeinfo import Types
from beadline.connectors.collections import SequenceSource
from beadline.datastream.connectors.base import Source

__all__ = ["NumberSequenceSource"]


class NumberSequenceSource(Source):
    """The numbers from ``start`` to ``end``, both included, in parallel."""

    _produced_type = Types.LONG()

    def __init__(self, start: int, end: int) -> None:
        self._source = SequenceSource(start, end)

    def _make_source(self) -> SequenceSource:
        return self._source
