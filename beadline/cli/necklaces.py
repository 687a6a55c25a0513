"""The job of the demonstration: a necklace factory that counts its beads.

Bead after bead comes off a line and is threaded onto one of thousands of open strings. A timer closes a string when
its shift is over, and a ledger adds up the closed strings by colour. What the ledger must say at the end is known
beforehand, by a formula.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor
from beadline.master.reporting.news import Watcher

END_OF_TIME = (1 << 63) - 1

# By colour: strings, beads, and the sum of the numbers of those beads.
Ledger = dict[int, tuple[int, int, int]]


@dataclass(frozen=True)
class Order:
    """What the factory is to make. Bead ``n`` comes at millisecond ``n``.

    :ivar strings: how many strings are open at a time; a multiple of ``colours``
    :ivar length: beads on a string
    """

    shifts: int
    strings: int = 24_000
    length: int = 12
    colours: int = 6

    @property
    def shift(self) -> int:
        """Beads, and milliseconds, of a shift."""
        return self.strings * self.length

    @property
    def beads(self) -> int:
        return self.shifts * self.shift

    def string_of(self, bead: int) -> int:
        """Strings are numbered through; those of a shift take their beads in turn."""
        return bead // self.shift * self.strings + bead % self.strings

    def colour_of(self, string: int) -> int:
        return string % self.colours


def closed_form(order: Order) -> Ledger:
    """What the ledger must say. The sum of bead numbers shows if a bead was lost and another came twice."""
    shifts, length, colours = order.shifts, order.length, order.colours
    alike = order.strings // colours  # strings of one colour in a shift
    ledger = {}
    for colour in range(colours):
        strings = shifts * alike
        # The first bead of a string, summed over shifts and strings; the others follow at a distance of all strings.
        by_shift = alike * order.shift * shifts * (shifts - 1) // 2
        by_place = shifts * (alike * colour + colours * alike * (alike - 1) // 2)
        behind = strings * order.strings * length * (length - 1) // 2
        ledger[colour] = (strings, strings * length, length * (by_shift + by_place) + behind)
    return ledger


class BeadTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class ThreadBeads(KeyedProcessFunction):
    """Keeps (beads, sum of their numbers) of each open string; the end of the shift closes it."""

    def __init__(self, shift: int) -> None:
        self._shift = shift

    def open(self, runtime_context: Any) -> None:
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self._string = runtime_context.get_state(ValueStateDescriptor("string", pair))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        beads, total = self._string.value() or (0, 0)
        if beads == 0:
            ctx.timer_service().register_event_time_timer((value // self._shift + 1) * self._shift - 1)
        self._string.update((beads + 1, total + value))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), *self._string.value()
        self._string.clear()


class AddUp(KeyedProcessFunction):
    """Adds up closed strings by colour, and tells when no more can come."""

    def open(self, runtime_context: Any) -> None:
        sums = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
        self._sums = runtime_context.get_state(ValueStateDescriptor("ledger", sums))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        strings, beads, total = self._sums.value() or (0, 0, 0)
        self._sums.update((strings + 1, beads + value[1], total + value[2]))
        ctx.timer_service().register_event_time_timer(END_OF_TIME)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), self._sums.value()


def count_beads(order: Order, watcher: Watcher) -> Ledger:
    """Run the job and give the ledger."""
    # Short steps, so that there is something to see.
    settings = Configuration().set_string("beadline.step.target", "1 s")
    settings.set_integer("beadline.step.first-records", 100_000).set_integer("beadline.step.max-records", 200_000)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(min(4, env.get_parallelism()))
    env.add_event_listener(watcher)

    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(BeadTime())
    beads = env.from_sequence(0, order.beads - 1).assign_timestamps_and_watermarks(in_order)
    strings = beads.key_by(order.string_of).process(ThreadBeads(order.shift))
    ledger = strings.key_by(lambda string: order.colour_of(string[0])).process(AddUp())
    with ledger.execute_and_collect("necklace factory") as results:  # type: ignore[union-attr]
        return dict(results)
