"""The type that an annotation of a class stands for: ``Optional[int]`` is a LONG, ``list[str]`` a LIST of STRING."""

from __future__ import annotations

import builtins
import datetime
import decimal
import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from beadline.common._types.base import PickledBytesTypeInfo, TypeInformation
from beadline.common._types.basic import BasicType, basic_type_info
from beadline.common._types.collections import ListTypeInfo, MapTypeInfo, PrimitiveArrayTypeInfo
from beadline.common._types.composite import TupleTypeInfo
from beadline.common._types.temporal import LocalTimeTypeInfo
from beadline.common.time import Instant

_PLAIN: dict[Any, TypeInformation] = {
    str: basic_type_info("STRING"),
    bool: basic_type_info("BOOLEAN"),
    int: basic_type_info("LONG"),
    float: basic_type_info("DOUBLE"),
    bytes: PrimitiveArrayTypeInfo(basic_type_info("BYTE")),
    decimal.Decimal: basic_type_info(BasicType.BIG_DEC.name),
    datetime.date: LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE),
    datetime.time: LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME),
    datetime.datetime: LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME),
    Instant: basic_type_info("INSTANT"),
}
_ANY = PickledBytesTypeInfo()

# A worker has the classes of the user's script but not what the script imported, and annotations may be text. These
# names then mean what they usually do; ``datetime`` may be the module or the class.
_USUAL = {**vars(builtins), **vars(typing), "typing": typing, "decimal": decimal, "Decimal": decimal.Decimal}
_NAMESPACES = (
    {**_USUAL, "datetime": datetime, "date": datetime.date, "time": datetime.time, "Instant": Instant},
    {**_USUAL, "datetime": datetime.datetime},
)

#: Gives the type of a class that has fields of its own, None for other classes.
ClassType = Callable[[type], TypeInformation | None]


def annotation_of(cls: type, name: str) -> tuple[Any, type]:
    """The annotation of a field, and the class that has it; ``Any`` if there is none."""
    for owner in cls.__mro__:
        try:
            annotations = inspect.get_annotations(owner)
        except NameError:  # evaluated late, and refers to what only type checkers import
            continue
        if name in annotations:
            return annotations[name], owner
    return Any, cls


def type_of_annotation(annotation: Any, owner: type, class_type: ClassType) -> TypeInformation:
    """The type of values that an annotation in a class asks for; without a type of its own it is any Python object.

    :param class_type: gives the type of classes with fields
    """
    annotation = _resolved(annotation, owner)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)

    def type_of(inner: Any) -> TypeInformation:
        return type_of_annotation(inner, owner, class_type)

    if isinstance(annotation, typing.NewType):
        return type_of(annotation.__supertype__)
    if origin is typing.Annotated:
        return type_of(arguments[0])
    if origin in (typing.Union, types.UnionType):
        others = [argument for argument in arguments if argument is not type(None)]
        return type_of(others[0]) if len(others) == 1 else _ANY
    if origin is list:
        return ListTypeInfo(type_of(arguments[0]))
    if origin is dict and not _takes_none(arguments[0], owner):
        return MapTypeInfo(type_of(arguments[0]), type_of(arguments[1]))
    if origin is tuple and arguments and not any(a is Ellipsis or _takes_none(a, owner) for a in arguments):
        return TupleTypeInfo([type_of(argument) for argument in arguments])
    if not isinstance(annotation, type) or origin is not None:
        return _ANY
    return _PLAIN.get(annotation) or class_type(annotation) or _ANY


def _takes_none(annotation: Any, owner: type) -> bool:
    """Whether None would be a value; a TUPLE and the keys of a MAP have none."""
    annotation = _resolved(annotation, owner)
    return annotation is None or annotation is Any or type(None) in typing.get_args(annotation)


def _resolved(annotation: Any, owner: type) -> Any:
    """What an annotation that is text refers to, ``Any`` if that is unknown."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if not isinstance(annotation, str):
        return annotation
    module = vars(sys.modules.get(owner.__module__, types))
    for namespace in (module, *_NAMESPACES):
        try:
            found = eval(annotation, {**namespace, owner.__name__: owner})
        except Exception:
            continue
        if not isinstance(found, types.ModuleType):
            return found
    return Any
