"""Durations and sizes. The two tables were computed by Flink 2.3.0's own parsers."""

from __future__ import annotations

import pytest

from beadline.common.option_texts import parse_duration_ms, parse_memory_bytes
from beadline.errors import ConfigurationError

# In nanoseconds.
DURATIONS = {
    "10": 10_000_000,
    "10 s": 10_000_000_000,
    "10s": 10_000_000_000,
    " 5 MIN ": 300_000_000_000,
    "1 day": 86_400_000_000_000,
    "2d": 172_800_000_000_000,
    "3 h": 10_800_000_000_000,
    "1hour": 3_600_000_000_000,
    "7 µs": 7_000,
    "1500 micros": 1_500_000,
    "999 ns": 999,
    "1 milli": 1_000_000,
    "PT10S": 10_000_000_000,
    "1m": 60_000_000_000,
    "1min": 60_000_000_000,
    "1M": 60_000_000_000,
}


@pytest.mark.parametrize("text", DURATIONS)
def test_a_duration_is_read_as_flink_reads_it(text: str) -> None:
    assert parse_duration_ms(text) == DURATIONS[text] // 1_000_000


@pytest.mark.parametrize(
    "text", ["-5 s", "1.5 s", "", " ", "abc", "5 x", "9223372036854775807 d", "10 ms s", "P", "PT"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_duration_ms(text)


def test_iso_durations() -> None:
    assert parse_duration_ms("P1DT2H3M4.5S") == ((24 + 2) * 3600 + 3 * 60 + 4) * 1000 + 500
    assert parse_duration_ms("PT0.2S") == 200
    assert parse_duration_ms("-PT1.5S") == -1500
    assert parse_duration_ms("PT-1.5S") == -1500


def test_milliseconds_are_rounded_down() -> None:
    assert parse_duration_ms("1999 µs") == 1
    assert parse_duration_ms("2999999 ns") == 2


SIZES = {
    "64mb": 67108864,
    "64 MB": 67108864,
    "1k": 1024,
    "1kb": 1024,
    "1kibibytes": 1024,
    "5": 5,
    "5 b": 5,
    "5bytes": 5,
    "2g": 2147483648,
    "2gb": 2147483648,
    "1t": 1099511627776,
    "1tb": 1099511627776,
}


@pytest.mark.parametrize("text", SIZES)
def test_a_size_is_read_as_flink_reads_it(text: str) -> None:
    assert parse_memory_bytes(text) == SIZES[text]


@pytest.mark.parametrize("text", ["1.5g", "-1", "x", "", "5 x", "1kib", "1gib", "9223372036854775807 t"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_memory_bytes(text)


def test_the_message_has_the_value_and_the_units() -> None:
    with pytest.raises(ConfigurationError, match=r"'5 parsecs' is not a duration: its unit 'parsecs' is none of \['d'"):
        parse_duration_ms("5 parsecs")
