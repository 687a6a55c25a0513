"""Lines of files: each line once, wherever the bytes are cut."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.connectors.file_source import source as file_source
from beadline.connectors.file_source import text as text_files
from beadline.connectors.file_source.listing import FileRange
from beadline.connectors.file_source.text import TextFileSource
from beadline.connectors.source import Position
from beadline.errors import ConfigurationError

lines = st.lists(st.text(alphabet="ab é漢🎈\r\t\x00\u2028\x85", max_size=6), max_size=12)
contents = st.tuples(lines, st.sampled_from(["\n", "\r\n"]), st.booleans())
fast = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def text_of(content: tuple[list[str], str, bool]) -> str:
    given_lines, ending, ends = content
    return ending.join(given_lines) + (ending if ends and given_lines else "")


def expected(text: str) -> list[str]:
    found = text.split("\n")
    if found[-1] == "":
        found.pop()
    return [line.removesuffix("\r") for line in found]


def read(source: TextFileSource, splits: list[Any]) -> list[str]:
    return [line for split in splits for batch in source.read_batches(split) for line in batch]


def ranges(path: str, start: int, end: int) -> tuple[FileRange, ...]:
    return (FileRange(path, start, end, Path(path).stat().st_size),)


def read_all(source: TextFileSource, rows: int, parallelism: int) -> list[str]:
    """From the start to the end, step by step."""
    position = source.initial()
    found: list[str] = []
    for _ in range(1000):
        if source.finished(position):
            return found
        position, splits = source.plan(position, rows, parallelism)
        assert len(splits) <= parallelism
        found += read(source, splits)
    raise AssertionError(f"it does not end: {position}")


@fast
@given(contents)
def test_a_cut_at_every_byte(tmp_path: Path, content: tuple[list[str], str, bool]) -> None:
    text = text_of(content)
    path = str(tmp_path / "f.txt")
    data = text.encode()
    Path(path).write_bytes(data)
    source = TextFileSource([path])
    for cut in range(len(data) + 1):
        splits = [ranges(path, 0, cut), ranges(path, cut, len(data))]
        assert read(source, splits) == expected(text)


@fast
@given(contents, st.lists(st.integers(0, 200), max_size=5), st.integers(2, 8))
def test_any_cuts_and_any_block(
    tmp_path: Path, content: tuple[list[str], str, bool], cuts: list[int], block: int
) -> None:
    text = text_of(content)
    path = str(tmp_path / "f.txt")
    data = text.encode()
    Path(path).write_bytes(data)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    splits = [ranges(path, start, end) for start, end in itertools.pairwise(places)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", block)
        assert read(TextFileSource([path]), splits) == expected(text)


@fast
@given(st.lists(contents, max_size=4), st.integers(1, 20), st.integers(1, 5))
def test_folders_are_read_step_by_step(
    tmp_path: Path, files: list[tuple[list[str], str, bool]], rows: int, parallelism: int
) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    wanted: list[str] = []
    for number, content in enumerate(files):
        text = text_of(content)
        (tmp_path / f"{number}.txt").write_bytes(text.encode())
        wanted += expected(text)
    assert read_all(TextFileSource([str(tmp_path)]), rows, parallelism) == wanted


@pytest.mark.parametrize(("ending", "opener"), [(".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)])
def test_compressed_files_are_read_whole(tmp_path: Path, ending: str, opener: Any) -> None:
    path = tmp_path / f"f.txt{ending}"
    with opener(path, "wt", newline="") as stream:
        stream.write("eins\r\nzwei\n\ndrei")
    assert read_all(TextFileSource([str(path)]), 1, 3) == ["eins", "zwei", "", "drei"]


def test_charsets(tmp_path: Path) -> None:
    for charset in ("latin-1", "UTF-16"):
        path = tmp_path / charset
        path.write_bytes("é\nab\n".encode(charset))
        assert read_all(TextFileSource([str(path)], charset), 1, 3) == ["é", "ab"]


def test_a_file_is_not_split_if_told_so(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a\n" * 100)
    source = TextFileSource([f"file://{path}"], may_split=False)
    _, splits = source.plan(source.initial(), 1, 4)
    assert [(given.path, given.start, given.end) for given in splits[0]] == [(str(path), 0, 200)]
    assert read(source, splits) == ["a"] * 100


def test_hidden_files_are_left_out_and_the_rest_is_in_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "_temporary").mkdir()
    for name in ("b", "a", ".hidden", "_SUCCESS", "sub/c", "_temporary/d"):
        (tmp_path / name).write_text(name + "\n")
    assert read_all(TextFileSource([str(tmp_path)]), 100, 1) == ["a", "b", "sub/c"]
    assert read_all(TextFileSource([str(tmp_path / "[ab]")]), 100, 1) == ["a", "b"]


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        TextFileSource([str(tmp_path / "none")]).initial()


def test_steps_read_about_as_many_rows_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("".join(f"{number:09}\n" for number in range(5000)))
    source = TextFileSource([str(path)])
    position = source.initial()
    position, splits = source.plan(position, 1000, 4)
    assert len(splits) == 4
    assert 990 <= len(read(source, splits)) <= 1010
    again, _ = source.plan(position, 1000, 4)
    assert again != position
    assert source.plan(position, 1000, 4)[0] == again, "planning changes nothing"


def monitored(tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> tuple[TextFileSource, Position]:
    monkeypatch.setattr(file_source.time, "monotonic", lambda: clock[0])
    (tmp_path / "a").write_text("one\n")
    source = TextFileSource([str(tmp_path)], monitor_seconds=5)
    position, splits = source.plan(source.initial(), 10, 1)
    assert read(source, splits) == ["one"]
    return source, position


def test_new_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    source, position = monitored(tmp_path, clock, monkeypatch)
    assert not source.bounded
    assert not source.finished(position)
    (tmp_path / "b").write_text("two\n")
    assert source.plan(position, 10, 1) == (position, []), "it is not yet time to look"
    clock[0] = 106.0
    position, splits = source.plan(position, 10, 1)
    assert read(source, splits) == ["two"]
    clock[0] = 112.0
    assert source.plan(position, 10, 1)[1] == []


def test_batch_mode_reads_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = monitored(tmp_path, [100.0], monkeypatch)
    source.prepare(batch=True)
    assert source.bounded
    assert read_all(source, 1, 1) == ["one"]
