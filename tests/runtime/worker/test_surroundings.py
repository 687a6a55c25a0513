"""A worker enters what it needs before it unpickles, and leaves it for other surroundings."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest
from pyspark import SparkFiles

from beadline.errors import ConfigurationError, EnvironmentSetupError
from beadline.runtime.worker import surroundings as module
from beadline.runtime.worker.surroundings import CachedFile, Packed, Surroundings, Unpacked, current_surroundings


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where Spark has unpacked archives, two of them with a module of the same name."""
    for name in ("one", "two"):
        (tmp_path / "files" / name).mkdir(parents=True)
        (tmp_path / "files" / name / "twin_in_archive.py").write_text(f"def name():\n    return '{name}'\n")
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path / "files"))
    monkeypatch.setattr(SparkFiles, "get", lambda name: str(tmp_path / "files" / name))
    before = sys.path[:], os.getcwd()
    monkeypatch.setattr(module, "_entered", None)
    yield tmp_path / "files"
    sys.path[:] = before[0]
    os.chdir(before[1])
    sys.modules.pop("twin_in_archive", None)


def test_what_names_a_shipped_module_is_unpickled_after_entering(root: Path) -> None:
    by_reference = b"\x80\x04ctwin_in_archive\nname\n."
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(by_reference)
    packed = pickle.loads(pickle.dumps(Packed(Surroundings(first=(Unpacked("one"),)), by_reference)))
    assert packed.open()() == "one"


def test_other_surroundings_take_the_place_of_these(root: Path) -> None:
    path, folder = sys.path[:], os.getcwd()
    last = str(root.parent)
    Surroundings(first=(Unpacked("one"),), last_folders=(last,), links=(("a/words", Unpacked("two")),)).enter()
    assert sys.path == [str(root / "one"), *path, last]
    assert os.path.realpath("a/words") == str(root / "two")
    Surroundings(first=(Unpacked("two"),)).enter()
    assert sys.path == [str(root / "two"), *path]
    assert os.getcwd() == folder
    Surroundings().enter()
    assert sys.path == path


def test_a_name_that_is_taken_by_something_else_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster Spark's files are in the executor's working directory, which all jobs share."""
    os.chdir(root)
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: ".")
    Surroundings(links=(("words", Unpacked("one")),)).enter()
    Surroundings(links=(("words", Unpacked("one")), ("more", Unpacked("two")))).enter()
    assert os.getcwd() == str(root)
    with pytest.raises(EnvironmentSetupError, match="another target_dir"):
        Surroundings(links=(("words", Unpacked("two")),)).enter()


def test_cached_files_are_found_by_name(root: Path) -> None:
    Surroundings(cached_files=(CachedFile("twin", Unpacked("one", "twin_in_archive.py"), executable=True),)).enter()
    path = current_surroundings().cached_file("twin")
    assert os.access(path, os.X_OK)
    with pytest.raises(ConfigurationError, match="the registered names are: twin"):
        current_surroundings().cached_file("other")


def test_other_code_of_beadline_is_refused_before_anything_is_unpickled() -> None:
    with pytest.raises(EnvironmentSetupError, match="different code of Beadline"):
        Packed(Surroundings(), cloudpickle.dumps(1), fingerprint="other").open()
