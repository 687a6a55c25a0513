"""Arrays, lists and maps: one type for all elements."""

from __future__ import annotations

from typing import Any

from beadline.common._types.base import (
    Converter,
    Formatter,
    TypeInformation,
    ValueMismatchError,
    checked_type,
    mismatch,
    nullable,
    same,
)
from beadline.common._types.basic import BasicType, BasicTypeInfo
from beadline.common._types.javatext import sequence_text
from beadline.errors import ConfigurationError

_PRIMITIVES = frozenset(BasicType) - {BasicType.STRING, BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.INSTANT}


class ElementsTypeInfo(TypeInformation):
    """What lists and arrays have in common: they take a list or tuple and give a list."""

    _none_allowed = True

    def __init__(self, element_type: TypeInformation) -> None:
        self.elem_type = checked_type(type(self).__name__, "element type", element_type)

    def converter(self) -> Converter:
        return list_converter(self, self.elem_type.converter(), self._none_allowed)

    def java_text(self) -> Formatter:
        text = nullable(self.elem_type.java_text())
        return lambda elements: sequence_text(map(text, elements))

    def _identity(self) -> tuple[Any, ...]:
        return (self.elem_type,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.elem_type}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.elem_type,)


class PrimitiveArrayTypeInfo(ElementsTypeInfo):
    """An array of numbers, booleans or characters without None. An array of bytes is a ``bytes``."""

    _none_allowed = False

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        _check_element("Types.PRIMITIVE_ARRAY", self.elem_type, _PRIMITIVES)

    def _is_bytes(self) -> bool:
        return isinstance(self.elem_type, BasicTypeInfo) and self.elem_type._basic_type is BasicType.BYTE

    def converter(self) -> Converter:
        return _bytes_converter(self) if self._is_bytes() else super().converter()

    def java_text(self) -> Formatter:
        return _signed_bytes_text if self._is_bytes() else super().java_text()


class BasicArrayTypeInfo(ElementsTypeInfo):
    """An array of numbers, booleans, characters or strings; elements may be None."""

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        _check_element("Types.BASIC_ARRAY", self.elem_type, _PRIMITIVES | {BasicType.STRING})


class ObjectArrayTypeInfo(ElementsTypeInfo):
    """An array of anything; elements may be None."""


class ListTypeInfo(ElementsTypeInfo):
    """The type of a ``list``; elements may be None."""

    def __init__(self, element_type: TypeInformation) -> None:
        self.elem_type = checked_type("Types.LIST", "element type", element_type)

    def held(self) -> TypeInformation:
        return ListTypeInfo(self.elem_type.held())

    def converter(self) -> Converter:
        checked = super().converter()
        if self.elem_type != BasicTypeInfo.BYTE_TYPE_INFO():
            return checked
        # PyFlink carries a list of bytes as `bytes`.
        return lambda value: bytes(value) if isinstance(value, (bytes, bytearray)) else checked(value)

    def java_text(self) -> Formatter:
        text = super().java_text()
        return lambda value: _signed_bytes_text(value) if isinstance(value, bytes) else text(value)


class MapTypeInfo(TypeInformation):
    """The type of a ``dict``; values may be None, keys may not."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self._key_type_info = checked_type("Types.MAP", "key type", key_type_info)
        self._value_type_info = checked_type("Types.MAP", "value type", value_type_info)

    def held(self) -> TypeInformation:
        return MapTypeInfo(self._key_type_info.held(), self._value_type_info.held())

    def converter(self) -> Converter:
        return _map_converter(self, self._key_type_info.converter(), self._value_type_info.converter())

    def java_text(self) -> Formatter:
        key_text = nullable(self._key_type_info.java_text())
        value_text = nullable(self._value_type_info.java_text())
        return lambda mapping: sequence_text(
            (f"{key_text(key)}={value_text(value)}" for key, value in mapping.items()), "{", "}"
        )

    def _identity(self) -> tuple[Any, ...]:
        return self._key_type_info, self._value_type_info

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info}, {self._value_type_info}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return MapTypeInfo, (self._key_type_info, self._value_type_info)


def list_converter(info: TypeInformation, element: Converter | None, none_allowed: bool) -> Converter:
    """Takes a list or tuple and gives a list, each element checked."""
    wanted = "a list" if none_allowed else "a list without None"

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise mismatch(info, wanted, value)
        if element is None:
            return list(value)
        try:
            if none_allowed:
                return [None if item is None else element(item) for item in value]
            return [element(item) for item in value]
        except ValueMismatchError:
            for index, item in enumerate(value):
                try:
                    if item is not None or not none_allowed:
                        element(item)
                except ValueMismatchError as found:
                    raise found.within(f"element {index}") from None
            raise

    return convert


def _bytes_converter(info: TypeInformation) -> Converter:
    def convert(value: Any) -> bytes:
        if type(value) is bytes:
            return value
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        raise mismatch(info, "bytes or a bytearray", value)

    return convert


def _map_converter(info: TypeInformation, key: Converter | None, value: Converter | None) -> Converter:
    check_key = key or same
    check_value = value or same

    def convert(mapping: Any) -> dict[Any, Any]:
        if not isinstance(mapping, dict):
            raise mismatch(info, "a dict", mapping)
        converted: dict[Any, Any] = {}
        for raw_key, raw_value in mapping.items():
            try:
                checked_key = check_key(raw_key)
            except ValueMismatchError as error:
                raise error.within(f"key {raw_key!r}") from None
            try:
                converted[checked_key] = None if raw_value is None else check_value(raw_value)
            except ValueMismatchError as error:
                raise error.within(f"value of key {raw_key!r}") from None
        return converted

    return convert


def _signed_bytes_text(value: bytes) -> str:
    return sequence_text(str(byte - 256 if byte > 127 else byte) for byte in value)


def _check_element(owner: str, element: TypeInformation, allowed: frozenset[BasicType]) -> None:
    if not isinstance(element, BasicTypeInfo) or element._basic_type not in allowed:
        names = ", ".join(sorted(basic_type.name for basic_type in allowed))
        raise ConfigurationError(
            f"{owner} can't have elements of type {element}; it takes {names}. Use Types.OBJECT_ARRAY for other types."
        )
