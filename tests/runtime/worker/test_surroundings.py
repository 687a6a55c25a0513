"""A worker enters what it needs before it unpickles, and leaves it for other surroundings."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest
from pyspark import SparkFiles

from beadline.errors import ConfigurationError, EnvironmentSetupError
from beadline.runtime.worker import garbage, worker
from beadline.runtime.worker import surroundings as module
from beadline.runtime.worker.garbage import no_collection, walk_everything_next
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


# -- what is set aside is not walked after every task, and does not leak either


class Node:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def nothing_set_aside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a worker: jobs on the local engine have this process leave garbage alone."""
    monkeypatch.setattr(garbage, "_left_alone", False)
    walk_everything_next()
    yield
    gc.unfreeze()


def test_no_collection_within_and_on_again_behind_a_failure() -> None:
    def fail() -> None:
        with no_collection():
            assert not gc.isenabled()
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fail()
    assert gc.isenabled()


def test_the_collection_behind_a_task_frees_what_the_task_made() -> None:
    with no_collection():
        made = weakref.ref(Node())
    assert made() is not None, "nobody collected yet"
    gc.collect()
    assert made() is None


def test_what_was_there_is_not_walked() -> None:
    kept = Node()
    with no_collection():
        assert gc.get_freeze_count() > 0
        assert all(kept is not walked for walked in gc.get_objects())


def test_garbage_that_was_set_aside_goes_when_everything_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Node()
    seen = weakref.ref(kept)
    with no_collection():
        pass
    del kept
    gc.collect()
    assert seen() is not None, "set aside"
    monkeypatch.setattr(garbage, "_walked_at", garbage._walked_at - garbage._EVERYTHING_AFTER_SECONDS)
    with no_collection():
        pass
    gc.collect()
    assert seen() is None
    with no_collection():
        assert gc.get_freeze_count() > 0, "the next time is a minute away"


def test_an_execution_that_ends_has_everything_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Execution(Node):
        def close(self) -> None:
            pass

    execution = Execution()
    seen = weakref.ref(execution)
    monkeypatch.setattr(worker, "_EXECUTIONS", {"ended": execution, "live": Execution()})
    with no_collection():
        pass
    del execution
    worker.forget_all_but(("live",))
    gc.collect()
    assert seen() is None
