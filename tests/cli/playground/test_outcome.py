"""What the formula says, and what the verdict does with results that differ from it."""

from __future__ import annotations

from collections import Counter

import pytest

from beadline.cli.playground.clicks import (
    CLICKS_PER_WINDOW,
    PAGES,
    PARTS,
    PER_WINDOW,
    WINDOW,
    made_by,
    page_of,
    part_of,
    time_of,
)
from beadline.cli.playground.generator import ClickGenerator
from beadline.cli.playground.journal import JournalReader
from beadline.cli.playground.outcome import FilesOutput, Outcome


def right_lines(windows: int) -> list[str]:
    return [f"{w * WINDOW},{page},{PER_WINDOW},{PER_WINDOW * (w + 1)}" for w in range(windows) for page in PAGES]


class TestClicks:
    def test_every_window_has_as_many_clicks_of_every_page(self):
        counted = Counter((time_of(click) // WINDOW, page_of(click)) for click in range(3 * CLICKS_PER_WINDOW))

        assert counted == {(window, page): PER_WINDOW for window in range(3) for page in PAGES}

    def test_every_part_has_clicks_of_all_pages_in_order(self):
        for part in range(PARTS):
            clicks = [click for click in range(CLICKS_PER_WINDOW) if part_of(click) == part]

            assert {page_of(click) for click in clicks} == set(PAGES)
            assert [time_of(click) for click in clicks] == sorted(time_of(click) for click in clicks)

    def test_a_second_makes_a_window(self):
        assert made_by(1000) == CLICKS_PER_WINDOW
        assert made_by(-5) == 0

    def test_the_generator_gives_each_click_once_however_it_is_cut(self):
        generator = ClickGenerator(started=0)
        rows = []
        for first, end in ((0, 600), (600, 600), (600, 12_000)):
            for partition in generator.partitions({"next": first}, {"next": end}):
                rows += generator.read(partition)

        assert Counter(rows) == Counter((page_of(click), time_of(click)) for click in range(12_000))


class TestVerdict:
    def verdict(self, lines):
        outcome = Outcome()
        outcome.add(lines)
        return outcome.verdict()

    def test_right(self):
        good, text = self.verdict(right_lines(3))

        assert good
        assert text.startswith("3 windows, 6 pages, 18 counts: each is exactly 1000")

    def test_nothing_at_all_is_not_right(self):
        assert self.verdict([]) == (False, "The job has published nothing.")

    @pytest.mark.parametrize(
        ("spoil", "complaint"),
        [
            (lambda lines: lines[:7] + lines[8:], "window 1 of /help is missing"),
            (lambda lines: [*lines, lines[3]], "window 0 of /jobs came twice"),
            (lambda lines: ["0,/about,999,1000", *lines[1:]], "window 0 of /about has 999 clicks"),
            (lambda lines: [*lines[:-1], "1000,/shop,1000,1999"], "the total of /shop after window 1 is 1999"),
            (lambda lines: [*lines[:-1], "1000,/shop,1000,2000,3000"], "window 1 of /shop came 3000 ms after"),
            (lambda lines: [*lines, "0,/elsewhere,1000,1000"], "nobody made the clicks of '0,/elsewhere"),
        ],
        ids=["missing", "twice", "a click lost", "state lost", "a window left out", "a page of nobody"],
    )
    def test_whatever_is_wrong_is_said(self, spoil, complaint):
        good, text = self.verdict(spoil(right_lines(2)))

        assert not good
        assert complaint in text

    def test_a_long_list_is_cut(self):
        good, text = self.verdict(["5000,/shop,1000,6000"])

        assert not good
        assert text.endswith("(and 30 more).")


class TestReading:
    def test_a_file_counts_when_it_has_its_name(self, tmp_path):
        output = FilesOutput(tmp_path / "counts")
        assert output.new() == []
        (tmp_path / "counts").mkdir()
        (tmp_path / "counts" / ".part-0.inprogress").write_text("0,/shop,500,500\n")
        (tmp_path / "counts" / "part-0").write_text("0,/shop,1000,1000\n")

        assert output.new() == ["0,/shop,1000,1000"]
        assert output.new() == []

    def test_a_line_that_a_killed_driver_left_unfinished_is_not_read(self, tmp_path):
        path = tmp_path / "journal"
        path.write_text('{"event": "StepReport"}\n{"event": "Exec')
        reader = JournalReader(path)

        assert reader.new() == [{"event": "StepReport"}]
        path.write_text('{"event": "StepReport"}\n{"event": "ExecutionStarted"}\n')
        assert reader.new() == [{"event": "ExecutionStarted"}]
