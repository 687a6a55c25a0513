"""Keys and values as JSON that a person can read, however large, and whatever their class is."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from beadline.common.type_description import readable, type_from_text
from beadline.common.typeinfo import BasicType, BasicTypeInfo
from beadline.errors import SerializationError
from beadline.state.codec import Frozen, thaw_as_written
from beadline.state.key_groups import unboxed
from beadline.state.segments.segment import TableChanges
from beadline.state_processor.columns import plain, text_of
from beadline.state_processor.reading import window_of

#: So many elements of a list or a map are shown, and so many characters of a value.
MOST_ELEMENTS = 1000
MOST_CHARACTERS = 1 << 16


class Unreadable:
    """Stands for a value of a class that is not trusted here, or whose own code fails."""

    def __init__(self, size: int, why: str) -> None:
        self._size, self._why = size, why

    def __repr__(self) -> str:
        return f"<a pickle of {self._size} bytes: {self._why}>"


def thaw_safely(value: Any) -> Any:
    """A value as it was written: rows stand for classes that are not here. What can't be loaded is
    :class:`Unreadable`."""
    if value.__class__ is not Frozen:
        return value
    try:
        return thaw_as_written(value)
    except SerializationError as error:
        return Unreadable(len(value), str(error))
    except Exception as error:  # of the class' own code
        return Unreadable(len(value), f"{type(error).__name__}: {error}")


def type_name(text: str) -> str | None:
    """A declared type as a person writes it; None if none was declared."""
    return readable(text) if text else None


def is_text(type_text: str) -> bool:
    info = type_from_text(type_text)
    return isinstance(info, BasicTypeInfo) and info._basic_type in (BasicType.STRING, BasicType.CHAR)


def key_text(key: Any, type_text: str) -> str:
    """The text of a key, which finds it again: a string is itself, unless it could be taken for something else."""
    if isinstance(key, str) and not type_text:
        try:
            json.loads(key)
        except (ValueError, RecursionError):
            return key
        return json.dumps(key, ensure_ascii=False)
    return text_of(key) or "null"


def window_json(namespace: Any) -> dict[str, int] | None:
    """A window as JSON; None for the global one."""
    bounds = window_of(namespace)
    return None if bounds is None else {"start": bounds[0], "end": bounds[1]}


def entry_json(table: TableChanges, slot: Any, change: Any, now: int) -> dict[str, Any]:
    """One settled entry: its window, its value, and when it expires if it has a time to live. Of an entry with several
    elements ``written_at`` is the last write, and each element stays until its own time is up."""
    written: list[int] = []

    def value_of(item: Any) -> Any:
        thawed = thaw_safely(item)
        if table.ttl_ms is None or isinstance(thawed, Unreadable):
            return thawed
        written.append(thawed[0])
        return thawed[1]

    length: int | None = None
    value: Any
    if table.kind == "list":
        length = len(change[1])
        value = [value_of(item) for item in change[1][:MOST_ELEMENTS]]
    elif table.kind == "map":
        length = len(change[1])
        value = {unboxed(key): value_of(item) for key, item in islice(change[1].items(), MOST_ELEMENTS)}
    else:
        value = value_of(change)
    shown, cut = bounded(value)
    expires = max(written) + table.ttl_ms if written and table.ttl_ms is not None else None
    return {
        "window": window_json(slot[1]) if table.namespaced else None,
        "value": shown,
        "length": length,
        "truncated": cut or (length or 0) > MOST_ELEMENTS,
        "written_at": max(written, default=None),
        "expires_at": expires,
        "expired": expires is not None and expires <= now,
    }


def bounded(value: Any) -> tuple[Any, bool]:
    """A value in JSON's terms; of a large one the beginning of its JSON as text, and True."""
    try:
        shown = plain(value)
        text = json.dumps(shown, ensure_ascii=False)
    except Exception as error:  # somebody's __repr__, or a circle
        return f"<a {type(value).__name__} that can't be shown: {type(error).__name__}: {error}>", False
    return (shown, False) if len(text) <= MOST_CHARACTERS else (text[:MOST_CHARACTERS], True)
