"""Rows and tuples: a type for every field."""

from __future__ import annotations

from typing import Any

from beadline.common._types.base import Converter, Formatter, TypeInformation, checked_types, nullable
from beadline.common._types.composite_convert import row_converter, tuple_converter
from beadline.common._types.javatext import sequence_text
from beadline.common.types import Row, RowKind
from beadline.errors import ConfigurationError


class _FieldsTypeInfo(TypeInformation):
    """What rows and tuples have in common."""

    _field_types: list[TypeInformation]

    def get_field_types(self) -> list[TypeInformation]:
        return self._field_types

    def need_conversion(self) -> bool:
        return True

    def _identity(self) -> tuple[Any, ...]:
        return tuple(self._field_types)


class RowTypeInfo(_FieldsTypeInfo):
    """The type of :class:`~beadline.common.types.Row`; each field may be None.

    Two row types are equal if their field types are, whatever the names.
    """

    def __init__(self, field_types: list[TypeInformation], field_names: list[str] | None = None) -> None:
        self._field_types = checked_types("Types.ROW", field_types)
        if field_names is not None:
            field_names = list(field_names)
            _check_names(field_names, len(self._field_types))
        self._field_names = field_names

    def get_field_names(self) -> list[str]:
        """The names; ``f0``, ``f1``, … if none were given."""
        if self._field_names is not None:
            return self._field_names
        return [f"f{index}" for index in range(len(self._field_types))]

    def get_field_index(self, field_name: str) -> int:
        """Where the field is; -1 if the type was made without names."""
        return -1 if self._field_names is None else self._field_names.index(field_name)

    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        """The number of the row kind, then the fields."""
        if obj is None:
            return None
        kind = RowKind.INSERT
        if isinstance(obj, Row):
            kind = obj.get_row_kind()
            values = obj.get_fields_by_names(self.get_field_names())
        elif isinstance(obj, (tuple, list)):
            values = list(obj)
        elif isinstance(obj, dict) or hasattr(obj, "__dict__"):
            mapping = obj if isinstance(obj, dict) else vars(obj)
            values = [mapping.get(name) for name in self.get_field_names()]
        else:
            raise ValueError(f"{obj!r} can't become a row: use a Row, a tuple, a list or a dict.")
        return kind.value, *_fields_to_internal(self._field_types, values)

    def converter(self) -> Converter:
        return row_converter(self, self.get_field_names(), [field.converter() for field in self._field_types])

    def held(self) -> TypeInformation:
        return RowTypeInfo([field.held() for field in self._field_types], self._field_names)

    def formatter(self) -> Formatter:
        """PyFlink prints a row by Python's ``str`` of its fields: ``+I[a,1,True]``."""

        def format_row(row: Row) -> str:
            return f"{row.get_row_kind()}[{','.join(map(str, row))}]"

        return format_row

    def java_text(self) -> Formatter:
        texts = [nullable(field.java_text()) for field in self._field_types]

        def format_inner_row(row: Row) -> str:
            return f"{row.get_row_kind()}{sequence_text(text(value) for text, value in zip(texts, row, strict=True))}"

        return format_inner_row

    def __repr__(self) -> str:
        if self._field_names:
            pairs = zip(self._field_names, self._field_types, strict=True)
            return f"RowTypeInfo({', '.join(f'{name}: {field}' for name, field in pairs)})"
        return f"RowTypeInfo({', '.join(map(str, self._field_types))})"

    def __reduce__(self) -> tuple[Any, ...]:
        arguments: tuple[Any, ...] = (self._field_types,)
        return RowTypeInfo, arguments if self._field_names is None else (*arguments, self._field_names)


class TupleTypeInfo(_FieldsTypeInfo):
    """The type of a ``tuple`` with a fixed number of fields, none of them None."""

    def __init__(self, field_types: list[TypeInformation]) -> None:
        self._field_types = checked_types("Types.TUPLE", field_types)

    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        if obj is None:
            return None
        if not isinstance(obj, (tuple, list, Row)):
            raise ValueError(f"{obj!r} can't become a tuple: use a tuple, a list or a Row.")
        return _fields_to_internal(self._field_types, list(obj))

    def converter(self) -> Converter:
        tests = [field.plain_test() for field in self._field_types]
        return tuple_converter(self, [field.converter() for field in self._field_types], tests)

    def is_immutable(self) -> bool:
        return all(field.is_immutable() for field in self._field_types)

    def held(self) -> TypeInformation:
        return TupleTypeInfo([field.held() for field in self._field_types])

    def java_text(self) -> Formatter:
        texts = [nullable(field.java_text()) for field in self._field_types]

        def format_tuple(value: tuple[Any, ...]) -> str:
            return sequence_text((text(item) for text, item in zip(texts, value, strict=True)), "(", ")", ",")

        return format_tuple

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TupleTypeInfo, (self._field_types,)


def _fields_to_internal(types: list[TypeInformation], values: list[Any]) -> tuple[Any, ...]:
    return tuple(
        field.to_internal_type(value) if value is not None and field.need_conversion() else value
        for field, value in zip(types, values, strict=False)
    )


def _check_names(names: list[str], count: int) -> None:
    if len(names) != count:
        raise ConfigurationError(
            f"Types.ROW_NAMED got {len(names)} field names {names} for {count} field types; give each field both."
        )
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConfigurationError(f"Types.ROW_NAMED got field names more than once: {doubled}; names must differ.")
