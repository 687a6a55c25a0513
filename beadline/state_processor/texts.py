"""What a value of no declared type looks like in a column of text.

A string is itself. Plain data, rows, dataclasses and time windows are JSON, so that ``get_json_object`` and
``from_json`` take them apart in SQL. Anything else is its ``repr``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import uuid
from collections.abc import Mapping, Set
from decimal import Decimal
from enum import Enum
from typing import Any

from beadline.api.windows.window import TimeWindow
from beadline.common import Row


def text_of(value: Any) -> str | None:
    """The text of a value; None stays None."""
    if value is None or value.__class__ is str:
        return value
    if isinstance(value, dt.date | dt.time | uuid.UUID | Decimal | bytes | bytearray | Enum):
        return str(_plain(value))
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value in JSON's terms."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Row):
        names = value._fields
        return [_plain(item) for item in value] if names is None else _object(zip(names, value, strict=False))
    if isinstance(value, Mapping):
        return _object(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _object(zip(value._fields, value, strict=True))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Set):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, TimeWindow):
        return {"start": value.start, "end": value.end}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return repr(value)


def _object(pairs: Any) -> dict[str, Any]:
    return {text_of(key) or "null": _plain(item) for key, item in pairs}
