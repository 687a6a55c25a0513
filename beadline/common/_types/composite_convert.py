"""Checking the fields of tuples and rows, which runs once for every record.

The function for the plain case is generated field by field and compiled for the declared width: that costs a third of
what a loop over the fields does. Every other case (another class, another width, a field that does not
fit) leaves this short path and may be slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from beadline.common._types.base import Converter, TypeInformation
from beadline.common._types.mismatch import ValueMismatchError, mismatch
from beadline.common.types import Row, RowKind, new_row

if TYPE_CHECKING:
    from beadline.common._types.composite import RowTypeInfo

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


def _same(value: Any) -> Any:
    return value


def _optional(check: Converter) -> Converter:
    return lambda value: None if value is None else check(value)


def tuple_converter(
    info: TypeInformation, fields: Sequence[Converter | None], tests: Sequence[str | None] = ()
) -> Converter:
    """Takes a tuple, list or Row of the right length and gives a tuple.

    :param tests: the fields' ``plain_test``: a tuple that passes them all is returned without a call per field
    """
    converters = tuple(field or _same for field in fields)
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


def row_converter(info: RowTypeInfo, names: list[str], fields: Sequence[Converter | None]) -> Converter:
    """Takes a Row, tuple, list, dict or object with attributes, and gives a Row with the declared names.

    A Row with names is read by name, in whatever order it has them, and may have more fields than are declared. A key
    that a dict lacks gives None. The rest must have the declared length.
    """
    converters = tuple(field or _same for field in fields)
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
