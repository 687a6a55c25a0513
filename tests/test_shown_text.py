"""What text from outside can do to a terminal: nothing."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from beadline.cli.output import plain
from beadline.shown_text import printable, printable_line

_DIRECTIONS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def commands(text: str) -> set[str]:
    return {each for each in text if unicodedata.category(each) == "Cc" or each in _DIRECTIONS | {"\u2028", "\u2029"}}


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    assert commands(printable(text).replace("\r\n", "\n")) <= {"\n", "\t"}
    assert not commands(printable_line(text.replace("\r\n", "")))
    assert not commands(plain(text.replace("\r\n", "")))


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Zl", "Zp"])))
def test_all_else_stays(text: str) -> None:
    assert printable(text) == printable_line(text) == text


def test_what_is_hidden_can_be_seen() -> None:
    assert printable("a\x1b[2Jb\rc\r\n\td\u202e") == "a\\x1b[2Jb\\rc\r\n\td\\u202e"
    assert printable_line("a\nb\tc") == "a\\nb\\tc"
