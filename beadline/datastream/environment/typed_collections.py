"""The elements of ``from_collection(…, type_info)``, as values of the declared type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from beadline.common._types.adapting import adapted
from beadline.common._types.base import Converter
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.environment.options import LENIENT_TYPES
from beadline.errors import TypeMismatchError


def typed_elements(elements: Iterable[Any], type_info: TypeInformation | None, lenient: bool) -> list[Any]:
    """The elements, converted.

    What PyFlink converts without loss is converted: a number becomes text where a string is declared. What PyFlink
    converts with a loss, such as an integer that is too large, is refused unless ``lenient``.
    """
    convert = None if type_info is None else type_info.converter()
    if type_info is None or convert is None:
        return list(elements)
    converted: list[Any] = []
    for position, element in enumerate(elements):
        try:
            converted.append(convert(element))
        except TypeMismatchError:
            converted.append(_adapted(element, position, type_info, convert, lenient))
    return converted


def _adapted(element: Any, position: int, type_info: TypeInformation, convert: Converter, lenient: bool) -> Any:
    try:
        return convert(adapted(type_info, element, lenient))
    except TypeMismatchError as error:
        hint = "" if lenient else _hint(element, type_info, convert)
        raise TypeMismatchError(f"from_collection, element {position}: {error}{hint}") from None


def _hint(element: Any, type_info: TypeInformation, convert: Converter) -> str:
    try:
        wrapped = convert(adapted(type_info, element, wrapping=True))
    except TypeMismatchError:
        return ""
    return (
        f" PyFlink would cut off the upper bits and give {wrapped!r}; to do the same, set the option {LENIENT_TYPES} "
        "to true."
    )
