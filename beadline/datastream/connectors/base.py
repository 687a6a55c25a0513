"""What connectors share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any

from beadline.api.sink_writers import CommitRequest, Committer, SinkWriter, WriterContext, WriterSink
from beadline.common.typeinfo import TypeInformation
from beadline.common.without_java import WithoutJava
from beadline.connectors.sink import StagedSink
from beadline.connectors.source import StepSource

if TYPE_CHECKING:
    from beadline.datastream.data_stream import DataStream

__all__ = [
    "CommitRequest",
    "Committer",
    "DeliveryGuarantee",
    "Sink",
    "SinkWriter",
    "Source",
    "StreamTransformer",
    "SupportsPreprocessing",
    "WriterContext",
]


class Source(WithoutJava):
    """What ``from_source`` reads from."""

    _produced_type: TypeInformation | None = None
    # Whether all records are of that type. If not, they are converted, or refused.
    _keeps_its_type = True

    def _make_source(self) -> StepSource | Any:
        raise NotImplementedError


class Sink(WriterSink, WithoutJava):
    """What ``sink_to`` writes to: a sink of Beadline's, or a class of the program's own with ``create_writer()``."""

    def _make_sink(self, type_info: TypeInformation) -> StagedSink:
        from beadline.connectors.user_sinks import writer_sink

        return writer_sink(self)


class DeliveryGuarantee(Enum):
    """How often a record reaches the outside."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class StreamTransformer(ABC):
    """What a sink does to a stream before it takes its records."""

    @abstractmethod
    def apply(self, ds: DataStream) -> DataStream:
        """The stream that the sink is to write."""


class SupportsPreprocessing(ABC):
    """A sink that prepares the stream it is given."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """How; None for not at all."""
