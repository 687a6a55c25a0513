"""Values that are carried as they are, and the wrapper that says a type came from elsewhere."""

from __future__ import annotations

from typing import Any

from beadline.common._types.base import Converter, Formatter, TypeInformation, checked_type


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object. It is what a stream has when no type was declared."""

    def converter(self) -> Converter | None:
        return None

    def java_text(self) -> Formatter:
        return str

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class ExternalTypeInfo(TypeInformation):
    """A type that a table made; its values are those of the wrapped type."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = checked_type("ExternalTypeInfo", "wrapped type", type_info)

    def converter(self) -> Converter | None:
        return self._type_info.converter()

    def formatter(self) -> Formatter:
        return self._type_info.formatter()

    def java_text(self) -> Formatter:
        return self._type_info.java_text()

    def _identity(self) -> tuple[Any, ...]:
        return (self._type_info,)

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info}>"
