"""Rows: records with a fixed number of fields, which may have names."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from operator import itemgetter
from typing import Any

from beadline.errors import UnsupportedFeatureError

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """What a row means in a changelog; a plain stream has inserts only."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _KIND_TEXTS[self.value]

    def to_j_row_kind(self) -> Any:
        raise UnsupportedFeatureError("RowKind.to_j_row_kind() needs Flink's JVM. Use the RowKind itself.")


_KIND_TEXTS = ("+I", "-U", "+U", "-D")
_INSERT = RowKind.INSERT


class Row:
    """A record with a fixed number of fields.

    ``Row("Alice", 11)`` has positions, ``Row(name="Alice", age=11)`` has names as well: ``row["name"]``, ``row.name``
    and ``row[0]`` are the same field. A row of strings also works as a template, ``Person = Row("name", "age")`` and
    then ``Person("Alice", 11)``.

    Rows with the same names and values are equal in whatever order the names were given. A row can be a key if its
    values can.
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: list[str] | None
    _values: list[Any]
    _row_kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(f"A Row has positions or names, not both; got positions {args!r} and names {kwargs!r}.")
        if kwargs:
            self._fields = list(kwargs)
            self._values = list(kwargs.values())
        else:
            self._fields = None
            self._values = list(args)
        self._row_kind = _INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def get_row_kind(self) -> RowKind:
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        self._row_kind = row_kind

    def set_field_names(self, field_names: list[str]) -> None:
        self._fields = field_names

    def get_fields_by_names(self, names: list[str]) -> list[Any]:
        """The values in the order of ``names``; all values, if the row has no names."""
        fields = self._fields
        if fields is None or names == fields:
            return self._values
        missing = [name for name in names if name not in fields]
        if missing:
            raise ValueError(f"The row has no fields {missing}; it has {list(fields)}.")
        return [self._values[fields.index(name)] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Names and values; with ``recursive``, rows inside the values become dictionaries too."""
        if self._fields is None:
            raise TypeError(f"{self!r} has no field names, so it can't become a dict; name its fields.")
        values = [_plain(value) for value in self._values] if recursive else self._values
        return dict(zip(self._fields, values, strict=False))

    def __call__(self, *args: Any) -> Row:
        """Take the values of this row as names, and ``args`` as the values of a new one."""
        if len(args) > len(self._values):
            raise ValueError(f"{self!r} has {len(self._values)} fields, got {len(args)} values {args!r}.")
        return new_row(list(args), self._values, self._row_kind)

    def __contains__(self, item: Any) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def _position(self, name: Any) -> int:
        if self._fields is None:
            raise KeyError(name)
        try:
            return self._fields.index(name)
        except ValueError:
            raise ValueError(f"The row has no field {name!r}; it has {list(self._fields)}.") from None

    def __getitem__(self, item: Any) -> Any:
        return self._values[item if isinstance(item, (int, slice)) else self._position(item)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[key if isinstance(key, (int, slice)) else self._position(key)] = value

    def __getattr__(self, item: str) -> Any:
        if item.startswith("_"):  # also a copy in the making, which has no slots set yet
            raise AttributeError(item)
        try:
            return self._values[self._position(item)]
        except (KeyError, ValueError, IndexError) as error:
            raise AttributeError(f"The row has no field {item!r}: {self!r}.", name=item, obj=self) from error

    def __reduce__(self) -> tuple[Any, ...]:
        # Most rows are inserts; leaving the kind out halves their pickles.
        content: tuple[Any, ...] = (self._values, self._fields)
        return new_row, content if self._row_kind is _INSERT else (*content, self._row_kind)

    def __repr__(self) -> str:
        if self._fields is not None:
            pairs = zip(self._fields, self._values, strict=False)
            return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"
        return f"<Row({', '.join(map(repr, self._values))})>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or self._row_kind is not other._row_kind:
            return False
        if self._fields == other._fields:
            return self._values == other._values
        return self._fields is not None and other._fields is not None and self._by_name() == other._by_name()

    def __copy__(self) -> Row:
        return new_row(list(self._values), self._fields, self._row_kind)

    def __hash__(self) -> int:
        return hash(tuple(self._values) if self._fields is None else self._by_name())

    def _by_name(self) -> tuple[tuple[str, Any], ...]:
        """Names and values in the order of the names, which is what equality and hash go by."""
        pairs = zip(self._fields or (), self._values, strict=False)
        return tuple(sorted(pairs, key=_first))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def new_row(values: list[Any], fields: list[str] | None = None, row_kind: RowKind = _INSERT) -> Row:
    """A row around these very lists, without copying them; the quick way to make many."""
    row = _NEW(Row)
    row._values = values
    row._fields = fields
    row._row_kind = row_kind
    return row


_NEW = object.__new__
_first = itemgetter(0)
