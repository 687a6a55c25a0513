"""A disk that does not take a file: the system says so once, drops what it could not write, and all seems well."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.ends import End
from beadline.connectors.files import RollingPolicy, pieces
from beadline.master.engines.local import LocalEngine
from beadline.master.snapshots import calls
from tests.connectors.transactions.ledger import visible
from tests.master.snapshots.ledger_jobs import into_ledger
from tests.master.snapshots.local_jobs import LocalJob, rows, rows_in
from tests.master.snapshots.troubles import TwiceEngine, until


@pytest.fixture
def bad_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Breaks the first file to be synced whose path has something in it; gives what was broken so far."""
    broken: list[str] = []
    fsync = os.fsync

    def breaks(what: str) -> list[str]:
        def failing(descriptor: int) -> None:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if what in path and not os.path.isdir(path) and "ready-" not in path and not broken:
                broken.append(path)
                Path(path).write_bytes(bytes(os.path.getsize(path)))
                raise OSError(errno.EIO, "Input/output error")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", failing)
        return broken

    return breaks


def go_back_once(job: LocalJob, bad_disk: Callable[[str], list[str]], what: str) -> None:
    """A file of the second step is lost: the job goes back to the first, and comes to its end."""
    job.step()
    job.checkpoint()
    broken = bad_disk(what)
    job.step()
    assert "may have dropped" in str(job.trigger().exception(20))
    assert broken
    until(lambda: job.master.attempt == 2, "the failure")
    job.sealed()
    job.checkpoint()
    assert job.finish() is End.FINISHED


def test_staged_rows_that_the_disk_did_not_take_come_again(
    bad_disk: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that stays open over several checkpoints is named by each of them."""
    monkeypatch.setattr(pieces, "_INLINE", 0)
    job = LocalJob(tmp_path, RollingPolicy())
    go_back_once(job, bad_disk, "/.staging-")
    assert rows_in(job.out) == rows(6)


def test_rows_for_a_system_outside_that_the_disk_did_not_take_come_again(
    bad_disk: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = into_ledger(tmp_path, monkeypatch)
    monkeypatch.setattr(pieces, "_INLINE", 0)
    job = LocalJob(tmp_path)
    go_back_once(job, bad_disk, "/output/.staging-")
    assert sorted(visible(out)) == rows(6)


def test_a_task_that_the_engine_tries_again_does_not_hide_it(
    bad_disk: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark on a cluster does: the second try of the task would find nothing wrong with the file."""
    out = into_ledger(tmp_path, monkeypatch)
    monkeypatch.setattr(pieces, "_INLINE", 0)
    monkeypatch.setattr(calls, "_LIGHT", -1)
    once = LocalEngine.run_each

    def insisting(engine: TwiceEngine, function: Callable[[Any], Any], items: list[Any], *args: Any) -> list[Any]:
        def twice(item: Any) -> Any:
            try:
                return function(item)
            except OSError:
                return function(item)

        return once(engine, twice, items, *args)

    monkeypatch.setattr(TwiceEngine, "run_each", insisting)
    job = LocalJob(tmp_path)
    go_back_once(job, bad_disk, "/output/.staging-")
    assert sorted(visible(out)) == rows(6)


def test_state_that_the_disk_did_not_take_is_counted_again(
    bad_disk: Callable[[str], list[str]], tmp_path: Path
) -> None:
    job = LocalJob(tmp_path, inline_threshold=0)
    job.step()
    job.checkpoint()
    broken = bad_disk("/shared/")
    job.step()
    assert job.trigger().exception(20) is not None
    assert broken
    assert job.master.attempt == 1, "what failed is written again, if it is still what it was"
    assert "is damaged" in str(job.trigger().exception(20))
    until(lambda: job.master.attempt == 2, "the failure")
    job.step()
    job.checkpoint()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(9)
