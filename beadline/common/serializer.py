"""The contract of a serializer that a program brings along, for window types of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]

T = TypeVar("T")

#: The namespace of state that belongs to a key alone, not to a window.
void = b""


class TypeSerializer(ABC, Generic[T]):
    """Writes values of one type into a stream of bytes, and reads them back."""

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Write ``element`` to ``stream``."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read one element from ``stream``."""

    def to_bytes(self, element: T) -> bytes:
        stream = BytesIO()
        self.serialize(element, stream)
        return stream.getvalue()

    def from_bytes(self, data: bytes) -> T:
        return self.deserialize(BytesIO(data))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self).__qualname__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """The namespace of state outside windows takes no bytes."""

    def serialize(self, element: bytes, stream: BytesIO) -> None:
        pass

    def deserialize(self, stream: BytesIO) -> bytes:
        return void
