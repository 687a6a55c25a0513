"""How numbers and times are written for people."""

from __future__ import annotations

import pytest

from beadline.cli.output import moment, watermark

LAST = 2**63 - 1


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "–"),
        (-1, "–"),
        (0, "1970-01-01 00:00:00"),
        (1_700_000_000_123, "2023-11-14 22:13:20"),
        (-86_400_000, "1969-12-31 00:00:00"),
        (LAST, "9,223,372,036,854,775,807 ms"),
        (-(2**63), "-9,223,372,036,854,775,808 ms"),
        (253_402_300_800_000, "253,402,300,800,000 ms"),  # the year 10,000
    ],
)
def test_a_moment_is_a_date_as_far_as_the_calendar_goes(milliseconds, text):
    assert moment(milliseconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (-(2**63), "–"),
        (LAST, "end of input"),
        (5_000, "5,000 ms"),
        (-5_000, "-5,000 ms"),
        (1_700_000_000_123, "2023-11-14 22:13:20"),
        (LAST - 1, "9,223,372,036,854,775,806 ms"),
    ],
)
def test_a_watermark_is_a_date_if_it_can_be_one(value, text):
    assert watermark(value) == text
