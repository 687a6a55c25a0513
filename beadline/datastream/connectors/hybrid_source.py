"""Sources that are read one after the other."""

from __future__ import annotations

from typing import Any

from beadline.connectors.hybrid import ChainedSource
from beadline.connectors.source import as_source
from beadline.datastream.connectors.base import Source

__all__ = ["HybridSource", "HybridSourceBuilder"]


class HybridSource(Source):
    """Reads each of its sources to the end before the next: ``HybridSource.builder(files).add_source(kafka).build()``.
    All but the last must be bounded. A source begins when the one before it has ended."""

    def __init__(self, sources: list[Any]) -> None:
        self._source = ChainedSource([as_source(source, "HybridSource") for source in sources])
        types = [getattr(source, "_produced_type", None) for source in sources]
        self._produced_type = types[0] if all(each == types[0] for each in types) else None

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """Start with the source that is read first."""
        return HybridSourceBuilder(first_source)

    def _make_source(self) -> ChainedSource:
        return self._source


class HybridSourceBuilder:
    """Collects sources in the order in which they are read."""

    def __init__(self, first_source: Source) -> None:
        self._sources: list[Any] = [first_source]

    def add_source(self, source: Source) -> HybridSourceBuilder:
        """The next source."""
        self._sources.append(source)
        return self

    def build(self) -> HybridSource:
        return HybridSource(self._sources)
