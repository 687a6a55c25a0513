"""A source for benchmarks of state: many keys once, then a few of them again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

LOAD = 250_000


class Slice(InputPartition):
    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first, self.end = first, end


class LoadThenTouch(DataSourceStreamReader):
    """Every key once, in large steps; then ``touched`` of them, ``stride`` apart, in each of ``rounds`` small steps."""

    bounded = True

    def __init__(self, keys: int, touched: int, rounds: int, stride: int = 1) -> None:
        self.keys, self.touched, self.stride = keys, touched, stride
        self.total = keys + rounds * touched

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        at = start["at"]
        return {"at": min(self.keys, at + LOAD) if at < self.keys else min(self.total, at + self.touched)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        middle = (start["at"] + end["at"]) // 2
        return [Slice(start["at"], middle), Slice(middle, end["at"])]

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        keys, touched, stride = self.keys, self.touched, self.stride
        return ((n if n < keys else (n - keys) % touched * stride,) for n in range(partition.first, partition.end))
