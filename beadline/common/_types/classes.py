"""Dataclasses and named tuples as types: a name and a type for every field, taken from the annotations."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beadline.common._types.annotations import annotation_of, type_of_annotation
from beadline.common._types.base import (
    Converter,
    Formatter,
    PickledBytesTypeInfo,
    TypeInformation,
    ValueMismatchError,
    mismatch,
)
from beadline.common._types.composite import RowTypeInfo, fields_to_internal
from beadline.common.types import Row
from beadline.errors import ConfigurationError

DATACLASS = "dataclass"
NAMED_TUPLE = "named tuple"
# A class that was sent to a worker by value has a copy of ``dataclasses.MISSING``.
_Missing: Any = type(dataclasses.MISSING)


@dataclass(frozen=True)
class ClassField:
    """A field of a class, and whether it has a default."""

    name: str
    type: TypeInformation
    default: bool = False


def kind_of(cls: Any) -> str | None:
    """Whether a class is a dataclass or a named tuple; None if it is neither."""
    if not isinstance(cls, type):
        return None
    if dataclasses.is_dataclass(cls):
        return DATACLASS
    if issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple) and hasattr(cls, "_field_defaults"):
        return NAMED_TUPLE
    return None


def default_makers(cls: type) -> dict[str, Callable[[], Any] | None]:
    """The fields of a class in order, each with what makes its default, None if it has none."""
    if kind_of(cls) == NAMED_TUPLE:
        defaults: Mapping[str, Any] = cls._field_defaults  # type: ignore[attr-defined]
        names: Sequence[str] = cls._fields  # type: ignore[attr-defined]
        return {name: _constant(defaults[name]) if name in defaults else None for name in names}
    makers: dict[str, Callable[[], Any] | None] = {}
    for field in dataclasses.fields(cls):
        factory: Any = field.default_factory
        if not isinstance(factory, _Missing):
            makers[field.name] = factory
        else:
            makers[field.name] = None if isinstance(field.default, _Missing) else _constant(field.default)
    return makers


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def new_instance(cls: type, values: Mapping[str, Any]) -> Any:
    """An instance with exactly these fields; as with unpickling, neither ``__init__`` nor ``__post_init__`` runs."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, map(values.__getitem__, cls._fields))  # type: ignore[attr-defined]
    instance = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(instance, name, value)
    return instance


class ClassTypeInfo(TypeInformation):
    """The type of a dataclass or a named tuple; each field may be None.

    A type that was read from a snapshot describes the class as it was then. If there is no such class any more, or it
    has other fields now, the values of the type are rows with the names of the fields.

    :ivar module: where the class is defined
    :ivar name: its qualified name
    :ivar kind: dataclass or named tuple
    :ivar cls: the class, None for one that is only described
    """

    def __init__(
        self, module: str, name: str, kind: str, fields: Sequence[ClassField], cls: type | None = None
    ) -> None:
        self.module = module
        self.name = name
        self.kind = kind
        self.fields = tuple(fields)
        self.cls = cls

    @staticmethod
    def of(cls: Any) -> ClassTypeInfo:
        return _described(cls, ())

    def get_field_names(self) -> list[str]:
        return [field.name for field in self.fields]

    def get_field_types(self) -> list[TypeInformation]:
        return [field.type for field in self.fields]

    def as_row(self) -> RowTypeInfo:
        return RowTypeInfo(self.get_field_types(), self.get_field_names())

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        """The fields in order."""
        if obj is None:
            return None
        return fields_to_internal(self.get_field_types(), [getattr(obj, field.name) for field in self.fields])

    def converter(self) -> Converter:
        return self.as_row().converter() if self.cls is None else _class_converter(self, self.cls)

    def held(self) -> TypeInformation:
        fields = [dataclasses.replace(field, type=field.type.held()) for field in self.fields]
        return ClassTypeInfo(self.module, self.name, self.kind, fields, self.cls)

    def java_text(self) -> Formatter:
        return str

    def _identity(self) -> tuple[Any, ...]:
        return self.module, self.name, self.kind, self.fields

    def __repr__(self) -> str:
        pairs = ", ".join(f"{field.name}: {field.type}" for field in self.fields)
        return f"ClassTypeInfo<{self.module}.{self.name}>({pairs})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ClassTypeInfo, (self.module, self.name, self.kind, self.fields, self.cls)


def _described(cls: Any, around: tuple[type, ...]) -> ClassTypeInfo:
    """:param around: the classes whose fields led here; one of them met again becomes any Python object"""
    kind = kind_of(cls)
    if kind is None:
        hint = f"; write Types.CLASS({type(cls).__name__})" if kind_of(type(cls)) else ""
        raise ConfigurationError(
            f"Types.CLASS takes a dataclass or a named tuple, got {cls!r}{hint}. Decorate the class with @dataclass, "
            "let it inherit from typing.NamedTuple, or declare Types.PICKLED_BYTE_ARRAY()."
        )

    def class_type(inner: type) -> TypeInformation | None:
        if kind_of(inner) is None:
            return None
        return PickledBytesTypeInfo() if inner in around or inner is cls else _described(inner, (*around, cls))

    fields = []
    for name, default in default_makers(cls).items():
        annotation, owner = annotation_of(cls, name)
        fields.append(ClassField(name, type_of_annotation(annotation, owner, class_type), default is not None))
    return ClassTypeInfo(cls.__module__, cls.__qualname__, kind, fields, cls)


def _class_converter(info: ClassTypeInfo, cls: type) -> Converter:
    """Takes an instance, or a Row or dict with its fields by name, and gives an instance; tuples by position for a
    named tuple. A field that is left out has its default."""
    makers = default_makers(cls)
    wanted = f"a {info.name}, or a Row or dict with the fields {list(makers)}"
    checks = [(f.name, check) for f in info.fields if (check := f.type.converter()) is not None]

    def instance_of(value: Any) -> Any:
        named: Mapping[str, Any] | None = None
        if isinstance(value, Row) and value._fields is not None:
            named = value.as_dict()
        elif isinstance(value, dict):
            named = value
        elif info.kind == NAMED_TUPLE and isinstance(value, (tuple, list)) and len(value) == len(makers):
            return tuple.__new__(cls, value)
        if named is None:
            raise mismatch(info, wanted, value)
        values = {}
        for name, make in makers.items():
            if name in named:
                values[name] = named[name]
            elif make is not None:
                values[name] = make()
            else:
                raise mismatch(info, wanted, value)
        return new_instance(cls, values)

    def convert(value: Any) -> Any:
        if not isinstance(value, cls):
            value = instance_of(value)
        changed = {}
        for name, check in checks:
            old = getattr(value, name)
            if old is not None:
                try:
                    new = check(old)
                except ValueMismatchError as error:
                    raise error.within(f"field '{name}'") from None
                if new is not old:
                    changed[name] = new
        return changed_copy(value, changed) if changed else value

    return convert


def changed_copy(value: Any, changed: Mapping[str, Any]) -> Any:
    """A copy with some fields changed."""
    if isinstance(value, tuple):
        return value._replace(**changed)  # type: ignore[attr-defined]
    result = copy.copy(value)
    for name, new in changed.items():
        object.__setattr__(result, name, new)
    return result
