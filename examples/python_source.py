"""Reads from a source written in Python: any reader of PySpark's streaming data source API is one.

beadline run examples/python_source.py
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from beadline.common import Types, WatermarkStrategy
from beadline.datastream import StreamExecutionEnvironment


class Range(InputPartition):
    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class CollatzReader(DataSourceStreamReader):
    """Numbers, and how many steps of the Collatz sequence lead from each to 1.

    The driver asks where the next step is to end and how to cut the range; tasks read the parts. Reading a part a
    second time must give the same records: that is what makes a repeated step harmless.
    """

    bounded = True  # ends when there is nothing new; without this line the job waits for more

    def __init__(self, last: int) -> None:
        self._last = last

    def initialOffset(self) -> dict[str, int]:
        return {"next": 1}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._last
        return {"next": min(self._last + 1, start["next"] + most)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Range]:
        middle = (start["next"] + end["next"]) // 2
        return [Range(start["next"], middle), Range(middle, end["next"])]

    def read(self, partition: Range) -> Iterator[tuple[int, int]]:
        for first in range(partition.start, partition.end):
            number, steps = first, 0
            while number != 1:
                number = number // 2 if number % 2 == 0 else 3 * number + 1
                steps += 1
            yield first, steps


def longer(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The number with the longer sequence; of equal ones the smaller."""
    return max(one, other, key=lambda number: (number[1], -number[0]))


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    numbers = env.from_source(CollatzReader(20_000), WatermarkStrategy.no_watermarks(), "Collatz", pair)
    # A running result: one for every number, and the last one of each key is final.
    longest = numbers.key_by(lambda number: len(str(number[0]))).reduce(longer)
    with longest.execute_and_collect("collatz") as results:
        final = {len(str(number)): (number, steps) for number, steps in results}
    for digits, (number, steps) in sorted(final.items()):
        print(f"{digits} digits: {number} takes {steps} steps")
