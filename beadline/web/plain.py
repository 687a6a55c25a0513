"""Dataclasses as plain data and back: what a record is written with, and read with by an older or newer version.

Fields that the reader does not know are left out, and fields that the writer did not know have their defaults. So every
field that is added to a record has a default.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

P = TypeVar("P", bound="Plain")

_ATOMS = (str, int, float, bool, type(None))
_Reader = Callable[[Any], Any]
_NAMES: dict[type[Any], tuple[str, ...]] = {}
_READERS: dict[type[Any], dict[str, _Reader]] = {}


class Plain:
    """Base of dataclasses whose fields are atoms, lists, dicts with text as keys, and other such dataclasses."""

    def as_dict(self) -> dict[str, Any]:
        """Data that JSON can hold. Lists and dicts are copied, so that nobody changes the record through it."""
        return {name: _plain(getattr(self, name)) for name in _names(type(self))}

    @classmethod
    def from_dict(cls: type[P], data: dict[str, Any]) -> P:
        """What :meth:`as_dict` gave, also in another version."""
        known = _readers(cls)
        return cls(**{name: known[name](value) for name, value in data.items() if name in known})


def _plain(value: Any) -> Any:
    if value.__class__ in _ATOMS:
        return value
    if isinstance(value, Plain):
        return value.as_dict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [item if item.__class__ in _ATOMS else _plain(item) for item in value]
    return str(value)


def _names(kind: type[Any]) -> tuple[str, ...]:
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in dataclasses.fields(kind))
    return names


def _readers(kind: type[Any]) -> dict[str, _Reader]:
    readers = _READERS.get(kind)
    if readers is None:
        hints = get_type_hints(kind)
        readers = _READERS[kind] = {name: _reader(hints[name]) for name in _names(kind)}
    return readers


def _reader(hint: Any) -> _Reader:
    """What makes a value of the declared type from plain data."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = [_reader(option) for option in get_args(hint) if option is not type(None)]
        made = inner[0] if len(inner) == 1 else _same
        return lambda value: None if value is None else made(value)
    if get_origin(hint) is list:
        of = _reader(get_args(hint)[0])
        return list if of is _same else lambda value: [of(item) for item in value]
    if get_origin(hint) is dict:
        of = _reader(get_args(hint)[1])
        return lambda value: {key: of(item) for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, Plain):
        return hint.from_dict
    return _same


def _same(value: Any) -> Any:
    return value
