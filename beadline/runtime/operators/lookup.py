"""The join of a stream with a table that does not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beadline.api.function import Function
from beadline.common.types import new_row
from beadline.graph.specs import LookupSpec
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.failure import UserCodeError
from beadline.runtime.functions.aliasing import copy_of, settle_unkeyed
from beadline.runtime.operators.base import FunctionOperator, Setup
from beadline.runtime.operators.lookup_table import Index
from beadline.state.codec import is_immutable


class LookupOperator(FunctionOperator):
    """Joins each element with the rows that have its key. Each result gets new row objects, so that nobody can change
    the table."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        spec = self.node.spec
        assert isinstance(spec, LookupSpec)
        self._spec = spec
        self._key: Callable[[Any], Any] = _method(spec.key, "get_key")
        self._function = None if spec.function is None else _method(spec.function, "join")
        self._kinds: set[type] = {type(None)}
        self._index: Index

    def open(self) -> None:
        super().open()
        self._index = self._spec.table.index(self._spec.on)

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self.records_in += len(records)
        key, find, composite = self._key, self._index.rows.get, self._index.composite
        make = self._pairs if self._function is None else self._joined
        outer = self._spec.outer
        results: list[Any] = []
        times: list[int] | None = None if timestamps is None else []
        record = None
        try:
            for position, record in enumerate(records):
                wanted = tuple(key(record)) if composite else key(record)
                found = find(wanted)
                if found is not None:
                    make(record, found, results)
                else:
                    if wanted.__class__ not in self._kinds:
                        self._index.check(wanted)
                        if not composite:
                            self._kinds.add(wanted.__class__)
                    if outer:
                        make(record, _NO_ROW, results)
                if times is not None:
                    times.extend([timestamps[position]] * (len(results) - len(times)))  # type: ignore[index]
        except UserCodeError:
            raise
        except Exception as error:
            raise UserCodeError(self.node, record, error) from error
        self.emit(results, times)

    def _pairs(self, record: Any, found: list[Any], results: list[Any]) -> None:
        results.append((record, self._row(found[0])))
        for values in found[1:]:
            results.append((_own(record), self._row(values)))

    def _joined(self, record: Any, found: list[Any], results: list[Any]) -> None:
        assert self._function is not None
        result = self._function(record if len(found) == 1 else _own(record), self._row(found[0]))
        results.append(settle_unkeyed(result))
        for values in found[1:]:
            result = self._function(_own(record), self._row(values))
            results.append(settle_unkeyed(result))

    def _row(self, values: Any) -> Any:
        if values is None:
            return None
        return new_row(list(copy_of(values) if self._index.nested else values), self._index.names)


# The one "row" of an element without a match.
_NO_ROW: list[Any] = [None]


def _own(record: Any) -> Any:
    """The element for one of several results, which must not share anything that can be changed."""
    return record if is_immutable(record) else copy_of(record)


def _method(function: Any, name: str) -> Callable[..., Any]:
    return getattr(function, name) if isinstance(function, Function) else function  # type: ignore[no-any-return]
