"""Rows and tuples: a type for every field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from beadline.common._types.base import (
    Converter,
    Formatter,
    TypeInformation,
    ValueMismatchError,
    checked_types,
    mismatch,
    nullable,
    same,
)
from beadline.common._types.javatext import sequence_text
from beadline.common.types import Row, RowKind, new_row
from beadline.errors import ConfigurationError


class _FieldsTypeInfo(TypeInformation):
    """What rows and tuples have in common."""

    _field_types: list[TypeInformation]

    def get_field_types(self) -> list[TypeInformation]:
        return self._field_types

    def need_conversion(self) -> bool:
        return True

    def _texts(self) -> Callable[[Iterable[Any]], Iterator[str]]:
        """A function that gives the texts of all fields."""
        texts = [nullable(field.java_text()) for field in self._field_types]
        return lambda values: (text(value) for text, value in zip(texts, values, strict=True))

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
        return kind.value, *fields_to_internal(self._field_types, values)

    def converter(self) -> Converter:
        return _row_converter(self, self.get_field_names(), [field.converter() for field in self._field_types])

    def held(self) -> TypeInformation:
        return RowTypeInfo([field.held() for field in self._field_types], self._field_names)

    def formatter(self) -> Formatter:
        """PyFlink prints a row by Python's ``str`` of its fields: ``+I[a,1,True]``."""
        return lambda row: f"{row.get_row_kind()}[{','.join(map(str, row))}]"

    def java_text(self) -> Formatter:
        texts_of = self._texts()
        return lambda row: f"{row.get_row_kind()}{sequence_text(texts_of(row))}"

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
        return fields_to_internal(self._field_types, list(obj))

    def converter(self) -> Converter:
        tests = [field.plain_test() for field in self._field_types]
        return _tuple_converter(self, [field.converter() for field in self._field_types], tests)

    def is_immutable(self) -> bool:
        return all(field.is_immutable() for field in self._field_types)

    def held(self) -> TypeInformation:
        return TupleTypeInfo([field.held() for field in self._field_types])

    def java_text(self) -> Formatter:
        texts_of = self._texts()
        return lambda value: sequence_text(texts_of(value), "(", ")", ",")

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TupleTypeInfo, (self._field_types,)


def fields_to_internal(types: list[TypeInformation], values: list[Any]) -> tuple[Any, ...]:
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


# -- checking the fields, which runs once for every record
#
# The function for the plain case is generated field by field and compiled for the declared width: that costs a third of
# what a loop over the fields does. Every other case (another class, another width, a field that does not fit) leaves
# this short path and may be slow.

_TUPLE_SOURCE = """
def convert(value):
    if value.__class__ is tuple and len(value) == {width}:
        ({variables}) = value
        if {plain}:
            return value
        try:
            return ({checked})
        except ValueMismatchError:
            pass
    return slowly(value)
"""

_ROW_SOURCE = """
def convert(value):
    kind = insert
    if type(value) is Row:
        kind = value._row_kind
        fields = value._fields
        values = value._values if fields is None or fields == names else values_of(value)
    elif type(value) is tuple:
        values = value
    else:
        values = values_of(value)
    if len(values) != {width}:
        raise wrong_width(value)
    try:
        ({variables}) = values
        return new_row([{checked}], names, kind)
    except ValueMismatchError:
        blame(values)
"""


def _compiled(
    source: str, check: str, converters: Sequence[Converter], plain: str = "False", **names: Any
) -> Converter:
    """The function of ``source``, with ``check`` written out for every field.

    :param plain: an expression over ``v0``, ``v1``, … that is true if the value may pass as it is
    """
    indices = range(len(converters))
    text = source.format(
        width=len(converters),
        plain=plain,
        variables="".join(f"v{index}, " for index in indices),
        checked="".join(check.format(index=index) for index in indices),
    )
    namespace: dict[str, Any] = {f"check{index}": converters[index] for index in indices}
    namespace.update(names, ValueMismatchError=ValueMismatchError)
    exec(text, namespace)
    function: Converter = namespace["convert"]
    return function


def _optional(check: Converter) -> Converter:
    return lambda value: None if value is None else check(value)


def _tuple_converter(
    info: TypeInformation, fields: Sequence[Converter | None], tests: Sequence[str | None] = ()
) -> Converter:
    """Takes a tuple, list or Row of the right length and gives a tuple.

    :param tests: the fields' ``plain_test``: a tuple that passes them all is returned without a call per field
    """
    converters = tuple(field or same for field in fields)
    wanted = f"a tuple of {len(converters)} fields, none of them None"

    def slowly(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (tuple, list, Row)) or len(value) != len(converters):
            raise mismatch(info, wanted, value)
        try:
            return tuple([check(item) for check, item in zip(converters, value, strict=True)])
        except ValueMismatchError:
            _blame([f"f{index}" for index in range(len(converters))], converters, list(value))

    written = [test.format(v=f"v{index}") for index, test in enumerate(tests) if test is not None]
    plain = " and ".join(written) if written and len(written) == len(converters) else "False"
    return _compiled(_TUPLE_SOURCE, "check{index}(v{index}), ", converters, plain, slowly=slowly)


def _row_converter(info: RowTypeInfo, names: list[str], fields: Sequence[Converter | None]) -> Converter:
    """Takes a Row, tuple, list, dict or object with attributes, and gives a Row with the declared names.

    A Row with names is read by name, in whatever order it has them, and may have more fields than are declared. A key
    that a dict lacks gives None. The rest must have the declared length.
    """
    converters = tuple(field or same for field in fields)
    wanted = f"a Row, tuple or list of {len(names)} fields, or a dict with keys from {names}"

    def values_of(value: Any) -> Sequence[Any]:
        if isinstance(value, Row):
            if value._fields is not None and any(name not in value._fields for name in names):
                raise mismatch(info, f"a Row with the fields {names}", value)
            return value.get_fields_by_names(names)
        if isinstance(value, (tuple, list)):
            return value
        if isinstance(value, dict):
            return [value.get(name) for name in names]
        if any(name in getattr(value, "__dict__", ()) for name in names):
            return [vars(value).get(name) for name in names]
        raise mismatch(info, wanted, value)

    def wrong_width(value: Any) -> Exception:
        return mismatch(info, wanted, value)

    def blame(values: Sequence[Any]) -> NoReturn:
        _blame(names, [_optional(check) for check in converters], values)

    return _compiled(
        _ROW_SOURCE,
        "None if v{index} is None else check{index}(v{index}), ",
        converters,
        Row=Row,
        blame=blame,
        insert=RowKind.INSERT,
        names=names,
        new_row=new_row,
        values_of=values_of,
        wrong_width=wrong_width,
    )


def _blame(names: Sequence[str], converters: Sequence[Converter], values: Sequence[Any]) -> NoReturn:
    """Find the field that does not fit, and raise with its name."""
    for name, check, value in zip(names, converters, values, strict=True):
        try:
            check(value)
        except ValueMismatchError as error:
            raise error.within(f"field '{name}'") from None
    raise AssertionError(f"no field of {values!r} is at fault")
