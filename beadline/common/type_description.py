"""Types as text: how a snapshot says what its state is, so that it can be read and compared without the program.

The text is compact JSON. A plain type is its name, ``"LONG"``; one with parts is an object with one key that says what
it is, ``{"row":[["name","STRING"],["age","INT"]]}``. No text stands for no type.

A class is described by its fields as they were when the text was written: :func:`type_from_text` never imports
anything, and gives the class itself only if it is loaded and has these very fields.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from beadline.common._types.base import ExternalTypeInfo, PickledBytesTypeInfo, TypeInformation
from beadline.common._types.basic import BasicType, basic_type_info
from beadline.common._types.classes import ClassField, ClassTypeInfo, kind_of
from beadline.common._types.collections import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from beadline.common._types.composite import RowTypeInfo, TupleTypeInfo
from beadline.common._types.temporal import DateTypeInfo, LocalTimeTypeInfo, TimestampTypeInfo, TimeTypeInfo
from beadline.errors import ConfigurationError

_PICKLED = "PICKLED_BYTE_ARRAY"
_NAMED: dict[str, TypeInformation] = {
    **{basic.name: basic_type_info(basic.name) for basic in BasicType},
    **{local.name: LocalTimeTypeInfo(local) for local in LocalTimeTypeInfo.TimeType},
    "SQL_DATE": DateTypeInfo(),
    "SQL_TIME": TimeTypeInfo(),
    "SQL_TIMESTAMP": TimestampTypeInfo(),
    _PICKLED: PickledBytesTypeInfo(),
}
_NAMES = {info: name for name, info in _NAMED.items()}
_OF_ONE: dict[str, Callable[[TypeInformation], TypeInformation]] = {
    "list": ListTypeInfo,
    "primitive_array": PrimitiveArrayTypeInfo,
    "basic_array": BasicArrayTypeInfo,
    "object_array": ObjectArrayTypeInfo,
    "external": ExternalTypeInfo,
}
_TAGS = {make: tag for tag, make in _OF_ONE.items()}

Node = str | dict[str, Any]


def type_to_text(info: TypeInformation) -> str:
    """The text of a type; empty for any Python object."""
    node = _node(info)
    return "" if node == _PICKLED else json.dumps(node, separators=(",", ":"), ensure_ascii=False)


def type_from_text(text: str) -> TypeInformation:
    if not text:
        return _NAMED[_PICKLED]
    try:
        return _type(json.loads(text))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ConfigurationError(
            f"{text!r} does not describe a type that this Beadline knows ({error!r}); a newer one may have written it."
        ) from error


def readable(text: str) -> str:
    """A text of a type as a person would write it: ``ROW<name STRING, age INT>``."""
    return _shown(_node(type_from_text(text)))


def classes_of(info: TypeInformation) -> Iterator[ClassTypeInfo]:
    inner: list[TypeInformation] = []
    if isinstance(info, ClassTypeInfo):
        yield info
    if isinstance(info, (RowTypeInfo, TupleTypeInfo, ClassTypeInfo)):
        inner = info.get_field_types()
    elif isinstance(info, MapTypeInfo):
        inner = [info._key_type_info, info._value_type_info]
    elif type(info) in _TAGS:
        inner = [_inner(info)]
    for part in inner:
        yield from classes_of(part)


# -- the tree that is written as JSON


def _node(info: TypeInformation) -> Node:
    name = _NAMES.get(info)
    if name is not None:
        return name
    if isinstance(info, PickledBytesTypeInfo):  # with something about its objects that state has no use for
        return _PICKLED
    if isinstance(info, RowTypeInfo):
        types: list[Any] = [_node(field) for field in info.get_field_types()]
        if info._field_names is not None:
            types = [list(pair) for pair in zip(info._field_names, types, strict=True)]
        return {"row": types}
    if isinstance(info, TupleTypeInfo):
        return {"tuple": [_node(field) for field in info.get_field_types()]}
    if isinstance(info, MapTypeInfo):
        return {"map": [_node(info._key_type_info), _node(info._value_type_info)]}
    if isinstance(info, ClassTypeInfo):
        fields = [[f.name, _node(f.type), *([1] if f.default else [])] for f in info.fields]
        return {"class": f"{info.module}:{info.name}", "kind": info.kind, "fields": fields}
    tag = _TAGS.get(type(info))
    if tag is None:
        raise ConfigurationError(f"{info!r} is not a type of beadline.common.Types, so no snapshot can describe it.")
    return {tag: _node(_inner(info))}


def _inner(info: Any) -> TypeInformation:
    inner: TypeInformation = info._type_info if isinstance(info, ExternalTypeInfo) else info.elem_type
    return inner


def _type(node: Any) -> TypeInformation:
    if isinstance(node, str):
        return _NAMED[node]
    if "class" in node:
        module, _, name = node["class"].partition(":")
        fields = [ClassField(field[0], _type(field[1]), len(field) > 2) for field in node["fields"]]
        return _as_loaded(ClassTypeInfo(module, name, node["kind"], fields))
    ((tag, inner),) = node.items()
    if tag == "row":
        if inner and isinstance(inner[0], list):
            return RowTypeInfo([_type(field) for _, field in inner], [name for name, _ in inner])
        return RowTypeInfo([_type(field) for field in inner])
    if tag == "tuple":
        return TupleTypeInfo([_type(field) for field in inner])
    if tag == "map":
        return MapTypeInfo(_type(inner[0]), _type(inner[1]))
    return _OF_ONE[tag](_type(inner))


def _as_loaded(written: ClassTypeInfo) -> ClassTypeInfo:
    """The type with its class, if that is loaded and still has these fields, whatever their defaults."""
    found: Any = sys.modules.get(written.module)
    for name in written.name.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    if kind_of(found) is None:
        return written
    loaded = ClassTypeInfo.of(found)
    if _without_defaults(_node(loaded)) != _without_defaults(_node(written)):
        return written
    pairs = zip(written.fields, loaded.fields, strict=True)
    fields = [ClassField(then.name, now.type, then.default) for then, now in pairs]
    return ClassTypeInfo(written.module, written.name, written.kind, fields, found)


def _without_defaults(node: Any) -> Any:
    if isinstance(node, dict):
        if "fields" in node:
            return {**node, "fields": [[name, _without_defaults(inner)] for name, inner, *_ in node["fields"]]}
        return {tag: _without_defaults(inner) for tag, inner in node.items()}
    return [_without_defaults(part) for part in node] if isinstance(node, list) else node


def _shown(node: Any) -> str:
    if isinstance(node, str):
        return node
    if "class" in node:
        fields = ", ".join(f"{name} {_shown(inner)}" for name, inner, *_ in node["fields"])
        return f"{node['class'].replace(':', '.')}<{fields}>"
    ((tag, inner),) = node.items()
    if tag == "row" and inner and isinstance(inner[0], list):
        parts = [f"{name} {_shown(field)}" for name, field in inner]
    else:
        parts = [_shown(part) for part in inner] if isinstance(inner, list) else [_shown(inner)]
    return f"{tag.upper()}<{', '.join(parts)}>"
