"""What connectors share."""

from __future__ import annotations

from enum import Enum
from typing import Any

from beadline.common.typeinfo import TypeInformation
from beadline.connectors.sink import StagedSink
from beadline.connectors.source import StepSource


class Source:
    """What ``from_source`` reads from."""

    _produced_type: TypeInformation | None = None

    def _make_source(self) -> StepSource | Any:
        raise NotImplementedError


class Sink:
    """What ``sink_to`` writes to."""

    def _make_sink(self, type_info: TypeInformation) -> StagedSink:
        raise NotImplementedError


class DeliveryGuarantee(Enum):
    """How often a record reaches the outside."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2
