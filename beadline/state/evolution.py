"""State whose declared type has changed: what can be carried over, and how each value is converted.

What happens automatically, also inside lists, maps, rows and classes:

=================== ==================================================================================================
numbers             get wider: BYTE → SHORT → INT → LONG → BIG_INT, FLOAT → DOUBLE, and from whole numbers to DOUBLE,
                    FLOAT and BIG_DEC where no digit can be lost; CHAR → STRING; SQL dates and times → local ones
rows with names,    fields are matched by name: reordered; removed; added, with None in a row and the field's default in
classes             a class. Rows, dataclasses and named tuples may become each other
rows, tuples        fields are matched by position: removed at the end; in a row also added there, with None
declared from now   each value is checked when it is migrated
not declared any    values stay as they are
more
=================== ==================================================================================================

The keys of maps, and the keys that state belongs to, stay as they are. For the rest there are a descriptor's hooks
(:meth:`~beadline.api.state_descriptors.StateDescriptor.migrate_from`); everything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from beadline.api.state_descriptors import StateMigration
from beadline.common._types.classes import ClassTypeInfo, changed_copy, default_makers, new_instance
from beadline.common._types.collections import ElementsTypeInfo
from beadline.common.type_description import classes_of, readable, type_from_text, type_to_text
from beadline.common.typeinfo import (
    BasicTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from beadline.common.types import Row, RowKind, new_row
from beadline.state.description import StateDescription

Converter = Callable[[Any], Any]

_INTEGERS = ("BYTE", "SHORT", "INT", "LONG", "BIG_INT")
# Pairs of plain types whose values are alike, and pairs that need a function. All others are refused.
_ALIKE = {
    *((narrow, wide) for at, narrow in enumerate(_INTEGERS) for wide in _INTEGERS[at + 1 :]),
    ("FLOAT", "DOUBLE"),  # state holds both at full precision
    ("CHAR", "STRING"),
    ("SQL_DATE", "LOCAL_DATE"),
    ("SQL_TIME", "LOCAL_TIME"),
    ("SQL_TIMESTAMP", "LOCAL_DATE_TIME"),
}
_CONVERTED: dict[tuple[str, str], Converter] = {
    **{(whole, "DOUBLE"): float for whole in ("BYTE", "SHORT", "INT")},
    **{(whole, "FLOAT"): float for whole in ("BYTE", "SHORT")},
    **{(whole, "BIG_DEC"): Decimal for whole in _INTEGERS},
}
_HOOK = "convert the old values with descriptor.migrate_from(old_type, function)"


@dataclass(frozen=True)
class Verdict:
    """Whether state can be used under another description.

    :ivar refusal: why not; empty if it does
    :ivar migrate: its values have to be rewritten first
    :ivar reason: what has to be done to them
    """

    refusal: str = ""
    migrate: bool = False
    reason: str = ""


class Incompatible(Exception):
    """Values of one type can't become values of the other; the message says where in the type."""


def compatible(old: StateDescription, new: StateDescription, hooks: Sequence[StateMigration] = ()) -> Verdict:
    """Whether the state of a snapshot can be what the program declares.

    :param hooks: the hooks of the program's descriptor
    """
    if (old.scope, old.kind, old.namespaced) != (new.scope, new.kind, new.namespaced):
        return Verdict("the kind of a state can't change; use another name")
    if old.map_key_type and new.map_key_type and _shape(old.map_key_type) != _shape(new.map_key_type):
        return Verdict(
            f"the keys of a map can't change their type, from {readable(old.map_key_type)} to "
            f"{readable(new.map_key_type)}; use another name"
        )
    try:
        convert = converter(old, new, hooks)
    except Incompatible as error:
        return Verdict(f"{error}. Use another name, or {_HOOK}")
    if (old.ttl_ms is None) != (new.ttl_ms is None):
        return Verdict(migrate=True, reason=f"its time to live is switched {'off' if new.ttl_ms is None else 'on'}")
    if convert is None:
        return Verdict()
    by = "checked" if not old.type else "converted"
    if hook_for(old.type, hooks) is not None:
        by = "converted by a hook"
    return Verdict(migrate=True, reason=f"values are {by}: {readable(old.type)} → {readable(new.type)}")


def converter(old: StateDescription, new: StateDescription, hooks: Sequence[StateMigration] = ()) -> Converter | None:
    """What turns a value (an element of a list, a value of a map) into one of the new type, None if they are alike.

    It takes values as they were written: rows for classes that have changed. It raises
    :class:`~beadline.errors.TypeMismatchError` for one that does not fit.
    """
    before, now = type_from_text(old.type), type_from_text(new.type)
    hook = hook_for(old.type, hooks)
    return type_converter(before, now) if hook is None else hooked(before, now, hook)


def hook_for(old_type: str, hooks: Iterable[StateMigration]) -> StateMigration | None:
    """The first hook that was given for a type; of classes, only the fields matter."""
    for hook in hooks:
        if _shape(type_to_text(hook.old_type)) == _shape(old_type):
            return hook
    return None


def hooked(old: TypeInformation, new: TypeInformation, hook: StateMigration) -> Converter:
    """The user's function, called with values of the type it expects, with its results checked."""
    before, after = type_converter(old, hook.old_type), new.held().converter()

    def convert(value: Any) -> Any:
        made = hook.function(value if before is None else before(value))
        return made if made is None or after is None else after(made)

    return _past_none(convert)


def _shape(text: str) -> str:
    """The text of a type with classes taken as rows, so that a copy of an old class, or a row, stands for it."""
    return type_to_text(_as_rows(type_from_text(text)))


def _as_rows(info: TypeInformation) -> TypeInformation:
    info = _bare(info)
    if isinstance(info, ClassTypeInfo):
        info = info.as_row()
    if isinstance(info, RowTypeInfo):
        return RowTypeInfo([_as_rows(field) for field in info.get_field_types()], info._field_names)
    if isinstance(info, TupleTypeInfo):
        return TupleTypeInfo([_as_rows(field) for field in info.get_field_types()])
    if isinstance(info, MapTypeInfo):
        return MapTypeInfo(_as_rows(info._key_type_info), _as_rows(info._value_type_info))
    if isinstance(info, (ListTypeInfo, ObjectArrayTypeInfo)):
        return type(info)(_as_rows(info.elem_type))
    return info


# -- types


def type_converter(old: TypeInformation, new: TypeInformation) -> Converter | None:
    """What turns values of one type into values of another; None if they are alike."""
    old, new = _bare(old), _bare(new)
    if isinstance(new, PickledBytesTypeInfo):
        _refuse_changed_classes(old)
        return None
    if isinstance(old, PickledBytesTypeInfo):
        check = new.held().converter()
        return None if check is None else _past_none(check)
    if type_to_text(old) == type_to_text(new):
        return None
    if isinstance(old, (RowTypeInfo, ClassTypeInfo)) and isinstance(new, (RowTypeInfo, ClassTypeInfo)):
        if _is_positional(old) or _is_positional(new):
            return _by_position(old, new)
        return _by_name(old, new)
    if isinstance(old, TupleTypeInfo) and isinstance(new, TupleTypeInfo):
        return _by_position(old, new)
    if isinstance(old, MapTypeInfo) and isinstance(new, MapTypeInfo):
        return _map_converter(old, new)
    if isinstance(old, ElementsTypeInfo) and type(old) is type(new) and not _is_bytes(old) and not _is_bytes(new):
        element = _within("an element", old.elem_type, new.elem_type)
        return None if element is None else _past_none(lambda values: [element(value) for value in values])
    pair = (readable(type_to_text(old)), readable(type_to_text(new)))
    if pair in _ALIKE:
        return None
    if pair in _CONVERTED:
        return _past_none(_CONVERTED[pair])
    raise Incompatible(f"{pair[0]} can't become {pair[1]}")


def _refuse_changed_classes(old: TypeInformation) -> None:
    """Without a declared type it is unknown how to convert a class that an older type described."""
    for info in classes_of(old):
        if info.cls is None:
            raise Incompatible(
                f"the class {info.module}.{info.name} has changed or is gone, and the program declares no type for it "
                "any more; declare it with Types.CLASS(…)"
            )


def class_names(info: TypeInformation) -> frozenset[tuple[str, str]]:
    return frozenset((found.module, found.name) for found in classes_of(info))


def _bare(info: TypeInformation) -> TypeInformation:
    while isinstance(info, ExternalTypeInfo):
        info = info._type_info
    return info


def _is_bytes(info: TypeInformation) -> bool:
    """Whether its values may be ``bytes``."""
    return isinstance(info, (ListTypeInfo, PrimitiveArrayTypeInfo)) and info.elem_type == BasicTypeInfo.BYTE_TYPE_INFO()


def _within(where: str, old: TypeInformation, new: TypeInformation) -> Converter | None:
    try:
        return type_converter(old, new)
    except Incompatible as error:
        raise Incompatible(f"{where}: {error}") from None


def _past_none(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _map_converter(old: MapTypeInfo, new: MapTypeInfo) -> Converter | None:
    before, now = (type_to_text(_as_rows(info._key_type_info)) for info in (old, new))
    if before != now:
        raise Incompatible(f"the keys of a map can't change their type, from {readable(before)} to {readable(now)}")
    convert = _within("a value of the map", old._value_type_info, new._value_type_info)
    if convert is None:
        return None
    return _past_none(lambda mapping: {key: convert(value) for key, value in mapping.items()})


# -- fields


def _is_positional(info: RowTypeInfo | ClassTypeInfo) -> bool:
    return isinstance(info, RowTypeInfo) and info._field_names is None


def _by_position(old: Any, new: Any) -> Converter | None:
    """Rows without names, and tuples. Fields come and go at the end."""
    if isinstance(new, ClassTypeInfo) or isinstance(old, ClassTypeInfo):
        raise Incompatible("a row without names and a class have no names in common")
    before, now = old.get_field_types(), new.get_field_types()
    if len(now) > len(before) and isinstance(new, TupleTypeInfo):
        raise Incompatible(f"a tuple can't hold None, so there is no value for its new field f{len(before)}")
    fields = [_within(f"field f{at}", *pair) for at, pair in enumerate(zip(before, now, strict=False))]
    converters = [convert or _same for convert in fields]

    def kept(value: Any) -> list[Any]:
        # Values beyond the last field are those that were removed.
        return [convert(item) for convert, item in zip(converters, value, strict=False)]

    if isinstance(new, TupleTypeInfo):
        alike = len(before) == len(now) and not any(fields)
        return None if alike else _past_none(lambda value: tuple(kept(value)))
    names, added = new.get_field_names(), [None] * max(0, len(now) - len(before))
    if names == old.get_field_names() and not any(fields):
        return None
    return _past_none(lambda value: new_row(kept(value) + added, names, value.get_row_kind()))


def _by_name(old: RowTypeInfo | ClassTypeInfo, new: RowTypeInfo | ClassTypeInfo) -> Converter | None:
    names = new.get_field_names()
    before = dict(zip(old.get_field_names(), old.get_field_types(), strict=True))
    fields = {
        name: _within(f"field '{name}'", before[name], field)
        for name, field in zip(names, new.get_field_types(), strict=True)
        if name in before
    }
    if names == list(before) and not any(fields.values()) and _same_class(old, new):
        return None
    kept = {name: convert or _same for name, convert in fields.items()}
    if isinstance(new, RowTypeInfo):
        return _past_none(_named_row_maker(names, kept))
    for field in new.fields:
        if field.name not in before and not field.default:
            raise Incompatible(f"field '{field.name}' of {new.name} is new and has no default; give it one")
    return _past_none(_named_row_maker(names, kept) if new.cls is None else _instance_maker(new.cls, kept))


def _same_class(old: RowTypeInfo | ClassTypeInfo, new: RowTypeInfo | ClassTypeInfo) -> bool:
    """Rows are alike if their fields are. Classes must be the very same: else a reader takes an instance for a row."""
    if isinstance(old, ClassTypeInfo) and isinstance(new, ClassTypeInfo):
        fields = _shape(type_to_text(old)) == _shape(type_to_text(new))
        return fields and (old.module, old.name, old.kind) == (new.module, new.name, new.kind)
    return type(old) is type(new)


def _named_row_maker(names: list[str], kept: dict[str, Converter]) -> Converter:
    taken = [(name, kept.get(name)) for name in names]

    def convert(value: Any) -> Any:
        fields = [None if check is None else check(_field(value, name)) for name, check in taken]
        return new_row(fields, names, getattr(value, "_row_kind", RowKind.INSERT))

    return convert


def _instance_maker(cls: type, kept: dict[str, Converter]) -> Converter:
    makers = default_makers(cls)

    def convert(value: Any) -> Any:
        if isinstance(value, cls) and value.__class__ is not cls:
            # An instance of a subclass, which adapted itself when it was loaded; it stays one.
            return changed_copy(value, {name: check(getattr(value, name)) for name, check in kept.items()})
        fields = {}
        for name, make in makers.items():
            check = kept.get(name)
            if check is not None:
                fields[name] = check(_field(value, name))
            elif make is not None:
                fields[name] = make()
        return new_instance(cls, fields)

    return convert


def _field(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, Row) else getattr(value, name)


def _same(value: Any) -> Any:
    return value
