"""The click count, one version later: totals have one field more, and there is one operator more.

* ``total`` also knows in how many windows a page was clicked. What the first version left in the savepoint is migrated
  before the first step: the new field is None there.
* ``pace`` is new, and starts empty. It tells the milliseconds from one window of a page to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beadline.cli.playground.programs.click_count import AddUp, main
from beadline.common import Row, Types
from beadline.datastream import DataStream, KeyedProcessFunction
from beadline.datastream.state import ValueStateDescriptor


class AddUpTwice(AddUp):
    total_type = Types.ROW_NAMED(["clicks", "windows"], [Types.LONG(), Types.LONG()])

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        window, page, clicks = value
        before = self.total.value()
        total = clicks + (before.clicks if before else 0)
        windows = 1 + ((before.windows if before else None) or 0)
        self.total.update(Row(clicks=total, windows=windows))
        yield window, page, clicks, total


class Pace(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last window", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        window = value[0]
        last = self.last.value()
        self.last.update(window)
        yield *value, 0 if last is None else window - last


def with_pace(totals: DataStream) -> DataStream:
    return totals.key_by(lambda row: row[1], Types.STRING()).process(Pace()).uid("pace").name("pace")


if __name__ == "__main__":
    main(AddUpTwice(), with_pace)
