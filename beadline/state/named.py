"""Dataclasses and named tuples in state: pickled by the names of their fields, so that a class may change.

On loading, fields are matched by name, in whatever order. A new field of the class takes its default; a field that the
class no longer has is dropped. A class can decide for itself with a class method ``__migrate_state__``: it gets the
stored fields as a dict whenever they differ from the fields of the class, and returns an instance.

Classes that define how they are pickled (``__reduce__``, ``__getstate__``, …) are left alone.
"""

from __future__ import annotations

import copyreg
import dataclasses
from collections.abc import Callable
from enum import Enum, Flag
from functools import lru_cache
from operator import attrgetter, methodcaller
from typing import Any

from beadline.common._types.base import shorten
from beadline.common._types.classes import DATACLASS, NAMED_TUPLE, default_makers, kind_of, new_instance
from beadline.common.types import Row, new_row
from beadline.errors import SerializationError
from beadline.state.arrays import reducer_of

Reducer = Callable[[Any], Any]

HOOK = "__migrate_state__"
_PROTOCOL = 5
_KEEP = "Keep it as it was, or declare the state with Types.CLASS(…) before and after the change"
_DEFAULT: Reducer = methodcaller("__reduce_ex__", _PROTOCOL)
_new = object.__new__
_set = object.__setattr__
# A dataclass with slots gets these two unless it has its own.
_SLOTS_STATE = {getattr(dataclasses, name, None) for name in ("_dataclass_getstate", "_dataclass_setstate")} - {None}


class Reducers(dict[type, Reducer]):
    """How instances of a class are pickled, decided once per class; the ``dispatch_table`` of a pickler."""

    def __missing__(self, cls: type) -> Reducer:
        if issubclass(cls, type):
            raise KeyError(cls)  # a class with a metaclass: the pickler refers to it by name
        if len(self) > 1000:
            self.clear()  # notebooks make new classes with every run
        own = copyreg.dispatch_table.get(cls) or reducer_of(cls) or _reducer(cls)
        reducer = own or (_by_value if _is_plain_enumeration(cls) else _DEFAULT)
        self[cls] = reducer
        return reducer


def _is_plain_enumeration(cls: type) -> bool:
    """Whether members of an enumeration are pickled as Python does it."""
    return issubclass(cls, Enum) and cls.__reduce_ex__ in (Enum.__reduce_ex__, Flag.__reduce_ex__)


def _by_value(member: Any) -> Any:
    """Early releases of Python 3.11 pickle a call of ``getattr``, which no snapshot may have."""
    return member.__class__, (member.value,)


def _reducer(cls: type) -> Reducer | None:
    kind = kind_of(cls)
    if kind is None or not _pickled_by_default(cls, kind):
        return None
    return _named_tuple_reducer(cls) if kind == NAMED_TUPLE else _dataclass_reducer(cls)


def _pickled_by_default(cls: type, kind: str) -> bool:
    def own(name: str) -> bool:
        return getattr(cls, name, None) not in (None, getattr(object, name, None), *_SLOTS_STATE)

    if any(map(own, ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs_ex__"))):
        return False
    return kind == NAMED_TUPLE or not (own("__new__") or own("__getnewargs__"))


def _dataclass_reducer(cls: type) -> Reducer:
    names = tuple(default_makers(cls))
    known = frozenset(names)
    values_of: Reducer = attrgetter(*names) if len(names) > 1 else lambda v: tuple([getattr(v, n) for n in names])

    def reduce(value: Any) -> Any:
        try:
            state: Any = (names, values_of(value))
        except AttributeError:  # only half made; it is restored like that
            return value.__reduce_ex__(_PROTOCOL)
        held = getattr(value, "__dict__", None)
        if held and not known.issuperset(held):
            state = (*state, {name: more for name, more in held.items() if name not in known})
        # In two moves, so that instances may refer to each other in a circle.
        return blank, (cls, names), state, None, None, fill

    return reduce


def _named_tuple_reducer(cls: type) -> Reducer:
    names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]

    def reduce(value: Any) -> Any:
        return tuple_of, (cls, names, tuple(value)), getattr(value, "__dict__", None) or None

    return reduce


# -- what pickles refer to


def blank(cls: type, names: tuple[str, ...]) -> Any:
    """A dataclass instance that is still without its fields."""
    kind = _shape(cls)[0]
    if kind != DATACLASS:
        raise SerializationError(
            f"state holds {_name(cls)} as a dataclass with the fields {list(names)}, and it is "
            f"{f'a {kind}' if kind else 'neither that nor a named tuple'} now. {_KEEP}"
        )
    return _new(cls)


def fill(instance: Any, state: tuple[Any, ...]) -> None:
    """Give a blank instance its fields, and what else it held."""
    cls = instance.__class__
    kind, makers, own_names = _shape(cls)
    if kind != DATACLASS:
        raise SerializationError(f"state gives fields to {shorten(instance)}, which is no dataclass")
    names, values = state[0], state[1]
    if names != own_names:
        values = _fitted(cls, dict(zip(names, values, strict=True)), makers)
    for name, value in zip(own_names, values, strict=True):
        _set(instance, name, value)
    if len(state) > 2 and hasattr(instance, "__dict__"):
        instance.__dict__.update(state[2])


def tuple_of(cls: type, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A named tuple; of a class that is a dataclass by now, a dataclass."""
    kind, makers, own_names = _shape(cls)
    if kind is None:
        raise SerializationError(
            f"state holds {_name(cls)} as a named tuple with the fields {list(names)}, and it is neither that nor a "
            f"dataclass now. {_KEEP}"
        )
    if names != own_names:
        values = _fitted(cls, dict(zip(names, values, strict=True)), makers)
    if kind == NAMED_TUPLE:
        return tuple.__new__(cls, values)
    return new_instance(cls, dict(zip(own_names, values, strict=True)))


@lru_cache(maxsize=1000)
def _shape(cls: type) -> tuple[str | None, dict[str, Callable[[], Any] | None], tuple[str, ...]]:
    kind = kind_of(cls)
    makers = {} if kind is None else default_makers(cls)
    return kind, makers, tuple(makers)


def _fitted(cls: type, fields: dict[str, Any], makers: dict[str, Callable[[], Any] | None]) -> tuple[Any, ...]:
    """The values of the fields that the class has now, from the stored ones."""
    hook = getattr(cls, HOOK, None)
    if hook is not None and fields.keys() != makers.keys():
        migrated = hook(fields)
        if not isinstance(migrated, cls):
            raise SerializationError(f"{_name(cls)}.{HOOK} must give a {cls.__name__}, and gave {migrated!r}")
        return tuple(getattr(migrated, name) for name in makers)
    values = []
    for name, make in makers.items():
        if name in fields:
            values.append(fields[name])
        elif make is not None:
            values.append(make())
        else:
            raise SerializationError(
                f"state holds {_name(cls)} with the fields {list(fields)}; its field '{name}' is newer and has no "
                f"default. Give it one, or give the class a class method {HOOK}(cls, fields) that makes an instance "
                "from the stored fields"
            )
    return tuple(values)


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


#: What the pickles of state may call, by name.
MAKERS: dict[str, Callable[..., Any]] = {"blank": blank, "fill": fill, "tuple_of": tuple_of}


# -- values as they were written


class Absent:
    """Stands for a class that can't be found."""

    def __init__(self, module: str, name: str) -> None:
        self.name = f"{module}.{name}"
        self.replaced = False


class RowMakers:
    """Makes rows of instances whose class is gone or has other fields now.

    :param only: modules and qualified names of the classes that it is for, None for all
    """

    def __init__(self, only: frozenset[tuple[str, str]] | None) -> None:
        self._only = only
        self.by_name: dict[str, Callable[..., Any]] = {
            "blank": self._blank,
            "fill": self._fill,
            "tuple_of": self._tuple_of,
        }

    def is_for(self, module: str, name: str) -> bool:
        return self._only is None or (module, name) in self._only

    def _is_row(self, cls: Any, names: tuple[str, ...], kind: str) -> bool:
        if isinstance(cls, Absent):
            cls.replaced = True
            return True
        shape = _shape(cls)
        as_written = shape[0] == kind and set(shape[2]) == set(names)
        return not as_written and self.is_for(cls.__module__, cls.__qualname__)

    def _blank(self, cls: Any, names: tuple[str, ...]) -> Any:
        return Row() if self._is_row(cls, names, DATACLASS) else blank(cls, names)

    def _fill(self, instance: Any, state: tuple[Any, ...]) -> None:
        if isinstance(instance, Row):
            instance._fields, instance._values = list(state[0]), list(state[1])
        else:
            fill(instance, state)

    def _tuple_of(self, cls: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
        return new_row([*values], [*names]) if self._is_row(cls, names, NAMED_TUPLE) else tuple_of(cls, names, values)
