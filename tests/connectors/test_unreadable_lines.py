"""Lines that are no text in their file's charset: named, and left out of what is read if the job is told so."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.connectors.file_source import text as text_files
from beadline.connectors.file_source.listing import FileRange
from beadline.connectors.file_source.text import TextFileSource
from beadline.connectors.source import Unreadable
from beadline.errors import InputError

pieces = st.sampled_from([b"a", "é".encode(), "漢".encode(), b"\xff", b"\xc3", b"\xe6\xbc", b"\r", b"", b"\x00"])
contents = st.lists(st.lists(pieces, max_size=4).map(b"".join), max_size=12).map(b"\n".join)
fast = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(source: TextFileSource, splits: list[Any]) -> list[Any]:
    """Lines, and what stands for those that can't be read."""
    found: list[Any] = []
    for split in splits:
        for batch in source.read_batches(split):
            found += [batch] if isinstance(batch, Unreadable) else batch
    return found


def expected(data: bytes) -> list[tuple[str, Any]]:
    """By hand: each line as text, or the bytes of a bad one and where it begins."""
    found: list[tuple[str, Any]] = []
    offset = 0
    lines = data.split(b"\n")
    for line in lines if lines[-1] else lines[:-1]:
        try:
            found.append(("good", line.decode().removesuffix("\r")))
        except UnicodeDecodeError:
            found.append(("bad", (offset, line.removesuffix(b"\r"))))
        offset += len(line) + 1
    return found


def seen(records: list[Any], path: str) -> list[tuple[str, Any]]:
    return [
        ("bad", (int(r.place.removesuffix(f" of {path}").rsplit(" ", 1)[1]), r.data))
        if isinstance(r, Unreadable)
        else ("good", r)
        for r in records
    ]


@fast
@given(contents, st.lists(st.integers(0, 80), max_size=5), st.integers(2, 8))
def test_each_line_once_good_or_bad_wherever_bytes_are_cut(
    tmp_path: Path, data: bytes, cuts: list[int], block: int
) -> None:
    path = str(tmp_path / "f.txt")
    Path(path).write_bytes(data)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    splits = [(FileRange(path, start, end, len(data)),) for start, end in itertools.pairwise(places)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", block)
        found = read(TextFileSource([path]), splits)
    assert seen(found, path) == expected(data)
    packed = tmp_path / "f.gz"
    packed.write_bytes(gzip.compress(data))
    source = TextFileSource([str(packed)])
    found = read(source, source.plan(source.initial(), 1, 3)[1])
    assert seen(found, f"{packed}, unpacked") == expected(data)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "menu.txt"
    path.write_bytes("tea\ncafé\nmilk\n".encode("latin-1"))
    source = TextFileSource([str(path)])
    first, bad, last = read(source, source.plan(source.initial(), 10, 1)[1])
    assert (first, last) == ("tea", "milk")
    assert repr(bad) == rf"b'caf\xe9' (the line at byte 4 of {path})"
    message = str(bad.problem)
    assert "not UTF-8: 0xe9 at byte 7" in message
    assert "beadline.poison.action=skip" in message
    assert "side-output" in message
    assert "charset" in message


def test_a_long_line_is_shortened(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"\xff" + b"x" * 100_000)
    source = TextFileSource([str(path)])
    (bad,) = read(source, source.plan(source.initial(), 10, 1)[1])
    assert len(bad.data) == 100_001
    assert len(repr(bad)) < 300


@pytest.mark.parametrize(
    ("charset", "data", "place"),
    [("UTF-16-LE", b"a\x00\n\x00\x00\xdcb\x00", 4), ("UTF-16", b"\xff\xfea\x00\n", 4), ("Shift_JIS", b"ab\n\xff\n", 3)],
)
def test_where_lines_cannot_be_cut_out_the_error_says_so(tmp_path: Path, charset: str, data: bytes, place: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(data)
    source = TextFileSource([str(path)], charset)
    with pytest.raises(InputError, match=rf"{path} is not {charset}: .* at byte {place}\. .*does not help.*charset"):
        read(source, source.plan(source.initial(), 10, 1)[1])


@fast
@given(st.text(alphabet="aé漢🎈\r\n", max_size=30), st.integers(2, 7))
def test_such_charsets_are_read_in_blocks(tmp_path: Path, text: str, block: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(text.encode("UTF-16"))
    wanted = [
        line.removesuffix("\r") for line in (text if text.endswith("\n") or not text else text + "\n").split("\n")
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", block)
        source = TextFileSource([str(path)], "UTF-16")
        assert read(source, source.plan(source.initial(), 1, 3)[1]) == wanted[:-1]
