from __future__ import annotations

from enum import Enum

from beadline.errors import ConfigurationError


class SavepointFormatType(Enum):
    """How a savepoint holds the state. Both kinds hold all they need, can be moved, and restore into any backend."""

    CANONICAL = "canonical"
    """As tables in Parquet, one folder per operator and state: any tool reads them. The default."""

    NATIVE = "native"
    """As the segments of state that the job works with: quicker to write, and for Beadline only."""

    @classmethod
    def of(cls, value: SavepointFormatType | str | None) -> SavepointFormatType:
        """The named format; the canonical one if none is named."""
        if value is None:
            return cls.CANONICAL
        if isinstance(value, cls):
            return value
        name = str(value).strip().upper()
        if name not in cls.__members__:
            raise ConfigurationError(f"the savepoint format {value!r} is none of {', '.join(cls.__members__)}")
        return cls[name]
