"""Fields are not state: what counts as a change."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from beadline.api.function import MapFunction
from beadline.api.metrics import MetricGroup
from beadline.runtime.task.acks import changed, fingerprint


class Sample(MapFunction):
    def __init__(self) -> None:
        self.number = 1
        self.nan = float("nan")
        self.items = [1, [2]]
        self.by_name: dict[str, Any] = {"a": {1}}
        self.queue = deque([1])
        self.pair = (1, [2])
        self.anything = object()
        self.metrics = MetricGroup()
        self.many = list(range(100))

    def map(self, value: Any) -> Any:
        return value


def test_nothing_changed() -> None:
    sample = Sample()
    assert changed(fingerprint(sample), sample) == []


def replace(name: str, value: Any) -> Callable[[Sample], None]:
    return lambda sample: setattr(sample, name, value)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (replace("number", 2), ["number"]),
        (lambda s: s.items.append(3), ["items"]),
        (lambda s: s.items[1].append(3), ["items"]),
        (lambda s: s.by_name["a"].add(2), ["by_name"]),
        (lambda s: s.by_name.pop("a"), ["by_name"]),
        (lambda s: s.queue.popleft(), ["queue"]),
        (lambda s: s.pair[1].append(3), ["pair"]),
        (replace("anything", [1]), ["anything"]),
        (lambda s: s.many.append(1), ["many"]),
        (lambda s: delattr(s, "number"), ["number"]),
        (replace("added", 1), ["added"]),
        (lambda s: (setattr(s, "number", 2), s.items.clear()), ["items", "number"]),
        (replace("metrics", MetricGroup()), []),
    ],
)
def test_changes_are_named(change: Callable[[Sample], None], names: list[str]) -> None:
    sample = Sample()
    before = fingerprint(sample)
    change(sample)
    assert changed(before, sample) == names
