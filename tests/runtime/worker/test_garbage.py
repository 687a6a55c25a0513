"""What is set aside is not walked after every task, and does not leak either."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from beadline.runtime.worker import garbage, worker
from beadline.runtime.worker.garbage import no_collection, walk_everything_next


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
