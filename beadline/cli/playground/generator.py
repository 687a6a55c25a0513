"""A source that makes clicks at a steady pace, as a web site would: it does not wait for whoever counts them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from beadline.cli.playground.clicks import PARTS, made_by, page_of, part_of, time_of

#: Clicks arrive in handfuls, a tenth of a second each: a step for every single click would be work for nothing.
_AT_ONCE = made_by(100)


class Clicks(InputPartition):
    """The clicks of one part in one step."""

    def __init__(self, part: str, first: int, end: int) -> None:
        super().__init__(part)
        self.part, self.first, self.end = part, first, end


class ClickGenerator(DataSourceStreamReader):
    """Rows of (page, event time). The position in the stream is the number of the next click.

    :param started: when the first click came, in milliseconds since 1970. Clicks that nobody has read since then wait,
        so a job that was away has something to catch up with.
    """

    def __init__(self, started: int) -> None:
        self._started = started

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        there = made_by(time.time() * 1000 - self._started) // _AT_ONCE * _AT_ONCE
        return {"next": max(start["next"], min(there, start["next"] + limit.max_rows))}

    def parts(self, offset: dict[str, int]) -> list[str]:
        return [f"part-{number}" for number in range(PARTS)]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Clicks]:
        if end["next"] <= start["next"]:
            return []
        return [Clicks(name, start["next"], end["next"]) for name in self.parts(end)]

    def read(self, partition: Clicks) -> Iterator[tuple[str, int]]:  # type: ignore[override]
        part = int(partition.part.removeprefix("part-"))
        for click in range(partition.first, partition.end):
            if part_of(click) == part:
                yield page_of(click), time_of(click)
