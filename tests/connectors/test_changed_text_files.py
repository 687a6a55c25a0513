"""Files that change while they are read: never a row less without a word."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beadline.connectors.file_source.text import TextFileSource
from beadline.connectors.source import Position, Unreadable
from beadline.errors import ConfigurationError, InputError

LINES = [f"{number:09}" for number in range(2000)]
TEXT = "".join(line + "\n" for line in LINES)


def read(source: TextFileSource, splits: list[Any]) -> list[str]:
    found: list[str] = []
    for split in splits:
        for batch in source.read_batches(split):
            assert not isinstance(batch, Unreadable)
            found += batch
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows.txt"
    path.write_text(TEXT)
    return path


def half_read(path: Path) -> tuple[TextFileSource, Position]:
    """A source that has read a step, and where it stands."""
    source = TextFileSource([str(path)])
    position, splits = source.plan(source.initial(), 1000, 2)
    assert read(source, splits) == LINES[: len(read(source, splits))]
    assert 0 < position["byte"] < len(TEXT)
    return source, position


def go_on(source: TextFileSource, position: Position, parallelism: int = 2) -> list[str]:
    return read(source, source.plan(position, 1 << 20, parallelism)[1])


def cut(path: Path) -> None:
    os.truncate(path, 15_000)


def cut_before_the_position(path: Path) -> None:
    os.truncate(path, 10)


def cut_and_written_again(path: Path) -> None:
    """What ``copytruncate`` of logrotate does."""
    with path.open("r+") as stream:
        stream.truncate(0)
        stream.write("".join(f"new {line}\n" for line in LINES))


def replaced_by_a_longer_one(path: Path) -> None:
    other = path.with_name("_other")
    other.write_text("".join(f"new {line}\n" for line in LINES))
    other.replace(path)


def replaced_by_one_of_the_same_size(path: Path) -> None:
    stat = path.stat()
    other = path.with_name("_other")
    other.write_text("".join(line[::-1] + "\n" for line in reversed(LINES)))
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(path)


CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (cut, r"rows\.txt has 15000 bytes and had 20000 when it was listed.*read from byte \d+ on.*back as it was"),
    (cut_before_the_position, r"rows\.txt has 10 bytes and had 20000.*from byte \d+ on.*is resumed \(-s latest\)"),
    (cut_and_written_again, r"rows\.txt has changed since it was listed with 20000 bytes.*back as it was"),
    (replaced_by_a_longer_one, r"rows\.txt has changed.*from byte \d+ on"),
    (replaced_by_one_of_the_same_size, r"rows\.txt has changed"),
    (Path.unlink, r"rows\.txt is gone; it had 20000 bytes when it was listed.*from byte \d+ on.*back as it was"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
@pytest.mark.parametrize("when", ["begun", "listed"])
def test_a_file_that_changed_is_refused(path: Path, when: str, change: Callable[[Path], None], message: str) -> None:
    source, position = half_read(path)
    if when == "listed":
        position = source.initial()
    change(path)
    with pytest.raises(InputError, match=message) as caught:
        go_on(source, position)
    assert len(str(caught.value).splitlines()) <= 10


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_a_file_that_changes_between_two_blocks_is_refused(
    path: Path, change: Callable[[Path], None], message: str
) -> None:
    source, position = half_read(path)
    _, splits = source.plan(position, 1 << 20, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beadline.connectors.file_source.text._BLOCK", 256)
        batches = source.read_batches(splits[0])
        next(batches)
        change(path)
        if change in (Path.unlink, replaced_by_a_longer_one, replaced_by_one_of_the_same_size):
            # Whoever has the file open still has all of it.
            assert sum(len(batch) for batch in batches) > 0
        else:
            with pytest.raises(InputError, match=message):
                list(batches)


def test_a_file_that_was_put_back_is_the_same(path: Path) -> None:
    source, position = half_read(path)
    kept = path.with_name("_kept")
    shutil.copyfile(path, kept)
    cut(path)
    with pytest.raises(InputError):
        go_on(source, position)
    kept.replace(path)  # another inode and another time
    done = position["byte"]
    assert go_on(source, position) == LINES[-(-done // 10) :]


def test_what_is_appended_is_not_read(path: Path) -> None:
    source, position = half_read(path)
    with path.open("a") as stream:
        stream.write("late\n" * 5000)
    assert go_on(source, position)[-1] == LINES[-1]


@pytest.mark.parametrize("charset", ["UTF-8", "UTF-16-LE"])
@pytest.mark.parametrize("may_split", [True, False])
def test_a_last_line_that_grows_is_the_same_when_it_is_read_again(
    tmp_path: Path, charset: str, may_split: bool
) -> None:
    path = tmp_path / "rows.txt"
    path.write_bytes("one\ntwo\nthr".encode(charset))
    source = TextFileSource([str(path)], charset, may_split=may_split)
    _, splits = source.plan(source.initial(), 1000, 1)
    first = read(source, splits)
    with open(path, "ab") as stream:
        stream.write("ee\nfour\n".encode(charset))
    assert read(source, splits) == first == ["one", "two", "thr"]


def test_checkpoints_of_earlier_versions_have_no_marks(path: Path) -> None:
    source = TextFileSource([str(path)])
    old = {"files": [[str(path), len(TEXT)]], "file": 0, "byte": 10_000}
    assert go_on(source, old) == LINES[1000:]
    cut(path)
    with pytest.raises(InputError, match="has 15000 bytes and had 20000"):
        go_on(source, old)


@pytest.mark.parametrize(("ending", "opener"), [(".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)])
def test_a_compressed_file_that_ends_early(tmp_path: Path, ending: str, opener: Any) -> None:
    path = tmp_path / f"rows{ending}"
    with opener(path, "wt") as stream:
        stream.write(TEXT)
    whole = path.stat().st_size
    source = TextFileSource([str(path)])
    start = source.initial()
    os.truncate(path, whole - 20)
    with pytest.raises(InputError, match=rf"rows{ending} has {whole - 20} bytes and had {whole}"):
        go_on(source, start)
    with pytest.raises(InputError, match=rf"rows{ending} can't be decompressed: .*cut short.*{whole - 20} bytes"):
        go_on(source, source.initial())
    path.write_bytes(b"no such thing at all")
    with pytest.raises(InputError, match=rf"rows{ending}"):
        go_on(source, source.initial())


def test_files_that_vanish_while_a_folder_is_listed_are_not_listed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = os.path.getsize
    (path.parent / "gone").write_text("x\n")

    def getsize(of: str) -> int:
        Path(of).unlink() if of.endswith("gone") else None
        return size(of)

    monkeypatch.setattr("os.path.getsize", getsize)
    assert [entry[0] for entry in TextFileSource([str(path.parent)]).initial()["files"]] == [str(path)]


@pytest.mark.parametrize("name", ["plain.txt", "with space.txt", "100%25.txt", "a#b?c.txt"])
@pytest.mark.parametrize("form", ["file:{}", "file://{}", "file://localhost{}"])
def test_paths_as_uris(tmp_path: Path, name: str, form: str) -> None:
    path = tmp_path / name
    path.write_text("x\n")
    source = TextFileSource([form.format(str(path).replace("%", "%25").replace(" ", "%20"))])
    assert go_on(source, source.initial()) == ["x"]


def test_a_glob_as_a_uri(tmp_path: Path) -> None:
    for name in ("a1.txt", "a2.txt"):
        (tmp_path / name).write_text(name + "\n")
    source = TextFileSource([f"file://{tmp_path}/a?.txt"])
    assert go_on(source, source.initial()) == ["a1.txt", "a2.txt"]


def test_what_is_no_path_of_this_machine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="can't be read from ftp://"):
        TextFileSource(["ftp://server/x"])
    with pytest.raises(ConfigurationError, match="by the environment") as caught:
        TextFileSource(["s3://me:s3cret@bucket/x"])
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="no charset 'UTF-81'"):
        TextFileSource(["x"], "UTF-81")
