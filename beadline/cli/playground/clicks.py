"""The clicks of the playground: made by a formula, so that everybody knows what the counts must be.

Six pages are clicked in turn, six thousand times per second. So each window of one second has exactly
:data:`PER_WINDOW` clicks of each page. A count of 999 is a lost click, one of 1001 a click that was counted twice.
"""

from __future__ import annotations

PAGES = ("/about", "/help", "/index", "/jobs", "/news", "/shop")
#: Clicks of one page in one window.
PER_WINDOW = 1000
#: Milliseconds.
WINDOW = 1000
CLICKS_PER_WINDOW = PER_WINDOW * len(PAGES)
#: Clicks come in parts, as records come in partitions of Kafka. Each part has a watermark of its own.
PARTS = 4


def page_of(click: int) -> str:
    return PAGES[click % len(PAGES)]


def time_of(click: int) -> int:
    """Event time, in milliseconds since the first click."""
    return click * WINDOW // CLICKS_PER_WINDOW


def part_of(click: int) -> int:
    """One click on each page goes to the first part, one on each page to the second, and so on."""
    return click // len(PAGES) % PARTS


def made_by(milliseconds: float) -> int:
    """How many clicks there are after so many milliseconds."""
    return max(0, int(milliseconds * CLICKS_PER_WINDOW / WINDOW))
