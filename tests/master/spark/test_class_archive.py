"""Archives of Spark's classes: found where they fit, and never used if they are not whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from beadline.master.spark import class_archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "beadline"
    folder.mkdir()
    return folder


def written(cache: Path, content: bytes) -> Path:
    made = cache / "made.jsa"
    made.write_bytes(content)
    return class_archive.keep(made)


def test_without_an_archive_java_is_told_nothing(cache: Path) -> None:
    assert class_archive.find() is None
    assert class_archive.options() == ""


def test_an_archive_is_used_by_its_name(cache: Path) -> None:
    kept = written(cache, b"classes")
    assert class_archive.find() == kept
    assert f"-XX:SharedArchiveFile={kept} " in class_archive.options()


def test_a_new_one_takes_the_place_of_the_old_one(cache: Path) -> None:
    written(cache, b"old classes")
    kept = written(cache, b"classes")
    assert list(cache.iterdir()) == [kept]


def test_one_that_is_not_whole_is_not_used(cache: Path) -> None:
    written(cache, b"classes").write_bytes(b"class")
    assert class_archive.options() == ""


def test_one_of_another_java_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(cache, b"classes")
    monkeypatch.setenv("JAVA_HOME", "/somewhere/else")
    assert class_archive.options() == ""


def test_a_folder_with_a_space_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would take the option apart there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a b"))
    (tmp_path / "a b" / "beadline").mkdir(parents=True)
    assert written(tmp_path / "a b" / "beadline", b"classes") == class_archive.find()
    assert class_archive.options() == ""
