"""The parts of PyFlink's module of this name that need no JVM."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from beadline.common.configuration import Configuration as Configuration
from beadline.common.typeinfo import TypeInformation
from beadline.common.types import Row as Row
from beadline.common.types import RowKind as RowKind
from beadline.datastream.environment.lending import lends

if not TYPE_CHECKING:
    __getattr__ = lends(__name__, "beadline.common.typeinfo")


class ResultTypeQueryable(ABC):
    """A source that says which type its records have."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""
