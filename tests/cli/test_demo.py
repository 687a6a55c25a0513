from __future__ import annotations

import io
from collections import defaultdict

import pytest
from rich.console import Console

from beadline.cli.demo import Progress, factory_time, verdict
from beadline.cli.necklaces import END_OF_TIME, Order, closed_form
from beadline.master.reporting.news import StepReport


def report(step: int, records: int, total: int, *, tries: int = 1, final: bool = False, watermark: int | None = 0):
    return StepReport(
        job_name="necklace factory",
        step=step,
        records=records,
        total_records=total,
        seconds=0.5,
        keys=24_000,
        touched=24_000,
        state_bytes=1_250_000,
        watermark=watermark,
        tries=tries,
        final=final,
        places={0: "1"},
        workers={0: 4711},
    )


class TestClosedForm:
    @pytest.mark.parametrize(
        "order",
        [
            Order(shifts=1, strings=6, length=1, colours=6),
            Order(shifts=3, strings=12, length=5, colours=4),
            Order(shifts=4, strings=20, length=7, colours=1),
        ],
    )
    def test_it_is_what_counting_bead_by_bead_gives(self, order):
        strings = defaultdict(list)
        for bead in range(order.beads):
            strings[order.string_of(bead)].append(bead)
        counted = dict.fromkeys(range(order.colours), (0, 0, 0))
        for string, beads in strings.items():
            closed, threaded, total = counted[order.colour_of(string)]
            counted[order.colour_of(string)] = (closed + 1, threaded + len(beads), total + sum(beads))

        assert closed_form(order) == counted

    def test_a_string_takes_all_its_beads_in_one_shift(self):
        order = Order(shifts=3, strings=12, length=5, colours=4)
        shifts = defaultdict(set)
        for bead in range(order.beads):
            shifts[order.string_of(bead)].add(bead // order.shift)

        assert {len(found) for found in shifts.values()} == {1}


class TestVerdict:
    order = Order(shifts=2, strings=12, length=5, colours=2)

    def test_right(self):
        assert verdict(self.order, closed_form(self.order), 0) == (
            True,
            "120 beads on 24 strings, equal to the closed form.",
        )

    def test_right_after_a_failure(self):
        _, text = verdict(self.order, closed_form(self.order), 1)

        assert text.endswith("equal to the closed form, although 1 step was run again.")

    def test_one_bead_lost_and_another_twice(self):
        ledger = closed_form(self.order)
        strings, beads, total = ledger[1]
        ledger[1] = (strings, beads, total + 1)

        right, text = verdict(self.order, ledger, 0)

        assert not right
        assert f"{{1: (({strings}, {beads}, {total + 1}), ({strings}, {beads}, {total}))}}" in text

    def test_a_colour_missing(self):
        ledger = closed_form(self.order)
        del ledger[0]

        right, text = verdict(self.order, ledger, 0)

        assert not right
        assert "{0: (None, (" in text


class TestPlainLines:
    def test_a_step_is_a_line(self, monkeypatch):
        clock = iter([10.0, 12.5])
        monkeypatch.setattr("beadline.cli.demo.time.monotonic", lambda: next(clock))
        progress = Progress(Order(shifts=1, strings=100, length=10, colours=5))

        progress.add(report(1, 100, 100))
        progress.add(report(2, 200, 300, tries=2, watermark=61_005))

        assert progress.line() == (
            "step 2: 200 records, 30% read, 400 records/s now, 100 on average, 24,000 keys, 1.2 MB of state, "
            "watermark 1:01.005, tries 2"
        )
        assert progress.reruns == 1

    @pytest.mark.parametrize(
        ("watermark", "text"),
        [
            (None, "–"),
            (-(1 << 63), "–"),
            (0, "0:00.000"),
            (59_999, "0:59.999"),
            (3_600_001, "60:00.001"),
            (END_OF_TIME, "end"),
        ],
    )
    def test_watermark(self, watermark, text):
        assert factory_time(watermark) == text


class TestLiveView:
    def shown(self, progress):
        console = Console(file=io.StringIO(), width=110, force_terminal=True, color_system=None)
        console.print(progress)
        return console.file.getvalue()

    def test_before_the_first_step(self):
        assert "starting Spark…" in self.shown(Progress(Order(shifts=1)))

    def test_while_it_runs(self):
        progress = Progress(Order(shifts=1, strings=100, length=10, colours=5))
        for step in range(1, 16):
            progress.add(report(step, 50, 50 * step))
        progress.notes.append("kill -9 4711")

        text = self.shown(progress)

        assert "750 of 1,000 beads" in text
        assert "step 16…" in text
        assert "⚡ kill -9 4711" in text
        assert [line.split()[1] for line in text.splitlines() if "1.2 MB" in line] == [str(n) for n in range(6, 16)]

    def test_its_height_never_changes(self):
        progress = Progress(Order(shifts=1))
        heights = set()
        for step in range(1, 14):
            heights.add(len(self.shown(progress).splitlines()))
            progress.add(report(step, 50, 50 * step, final=step == 13))
        heights.add(len(self.shown(progress).splitlines()))

        assert len(heights) == 1
        assert "all strings are closed" in self.shown(progress)
