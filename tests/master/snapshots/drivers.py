"""Drivers in processes of their own, which die, fail or stop at a point that the test names.

A point is before or after a call of something that the job master does: see :data:`POINTS`; or before one of the
changes that the process makes to files. The process that runs the tests may have threads and a JVM, so the drivers are
forked from a server that has neither.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.ends import End
from beadline.checkpoint.storage import file_system as file_storage
from beadline.checkpoint.storage import storage
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.connectors.files import RollingPolicy, pieces, renaming
from beadline.connectors.files.committer import FileCommitter
from beadline.connectors.transactions import LogSink, TransactionalSink
from beadline.errors import JobFinishedError
from beadline.master import restoring
from beadline.master.engines.local import LocalDeployment, LocalEngine, one_at_a_time
from beadline.master.execution import Execution
from beadline.master.job import JobMaster
from beadline.master.reporting.news import StepReport
from beadline.master.snapshots import calls
from beadline.master.snapshots.checkpoints import Checkpoints
from beadline.master.snapshots.home import Home
from beadline.master.snapshots.sinks import Sinks
from beadline.master.upkeep.truth import Truth
from tests.connectors.transactions.ledger import Journal, Ledger, as_text
from tests.master.snapshots.local_jobs import (
    LocalJob,
    Numbers,
    compacting_sink,
    counting_plan,
    file_sink,
    parquet_sink,
    settings_of,
)
from tests.master.snapshots.troubles import until

#: What can be interrupted, by name: before it, and after it.
POINTS: dict[str, tuple[Any, str]] = {
    # a step
    "running a step": (LocalDeployment, "run_step"),
    "sealing": (Execution, "seal"),
    "handing output to sinks": (Sinks, "sealed"),
    # a checkpoint
    "taking": (Execution, "snapshot"),
    "pre-committing": (Sinks, "precommit"),
    "making a part ready": (renaming, "_write"),
    "writing": (FileJobStorage, "write"),
    "the checkpoint's appearance": (file_storage, "publish_checkpoint"),
    "hearing of it": (Checkpoints, "written"),
    "telling sources": (Execution, "commit_sources"),
    "publishing": (Sinks, "publish"),
    "publishing a part": (renaming, "publish_file"),
    "a part's appearance": (renaming, "rename"),
    "noting what is visible": (Sinks, "published"),
    "discarding": (FileJobStorage, "discard"),
    # beginning, and going back
    "taking the lease": (FileJobStorage, "acquire"),
    "migrating": (restoring, "migrated"),
    "making the snapshot the truth": (Truth, "restore"),
    "leaving newer checkpoints": (Checkpoints, "leave_behind"),
    "restoring sinks": (Sinks, "restore"),
    "taking output back": (FileCommitter, "restore"),
    "dropping orphans": (Home, "drop_orphans"),
    # the end
    "noting the stop": (Home, "note_stop"),
    "noting the finish": (Home, "note_finish"),
    "closing checkpoints": (Checkpoints, "close"),
    "closing sinks": (Sinks, "close"),
    "closing the home": (Home, "close"),
    "releasing the lease": (FileJobStorage, "release"),
    "removing the folder": (FileJobStorage, "remove"),
    # a savepoint
    "making output portable": (Sinks, "portable"),
    "writing a savepoint": (FileJobStorage, "write_savepoint"),
    "the savepoint's appearance": (storage, "publish_savepoint"),
    "completing": (Checkpoints, "complete"),
}
#: Before any change that the process makes to files below its folder.
FILES = "changing files"

_FILES: dict[str, Callable[..., Any]] = {"files": file_sink, "compacted": compacting_sink, "parquet": parquet_sink}
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
_WRITING = os.O_WRONLY | os.O_RDWR

# How a driver's process ends.
KILLED = -signal.SIGKILL
FENCED = 3
FAILED = 4
FINISHED_BEFORE = 5
HANGS = 6
REFUSED = 7


@dataclass(frozen=True)
class Trap:
    """What happens when a driver comes to a point.

    :ivar at: ``before …`` or ``after …`` one of :data:`POINTS`, or :data:`FILES`
    :ivar nth: of the times that it comes there
    :ivar since: they count from when it has come to this point
    :ivar act: ``kill``; ``fail``: it raises there; ``slow``: it takes a while there; ``hold``: the thread waits there
        for the process's end; ``pause``: the process stops there until it is told to go on
    """

    at: str
    nth: int = 1
    act: str = "kill"
    since: str = ""


@dataclass(frozen=True)
class Drive:
    """What one driver is to do.

    :ivar records: how many there are in all
    :ivar step: how many of them a step reads
    :ivar awaits: each step waits for a checkpoint that holds the one before
    :ivar consumes: somebody takes visible files away, whenever the driver comes to a point
    :ivar inline: pieces of output up to this size are in checkpoints and not in files
    :ivar stop: take one checkpoint, and end the job with a savepoint when so many records are sealed
    :ivar sink: ``files`` of rows, ``compacted`` ones, ``parquet`` files; ``transactions`` or ``log`` for a system
        outside
    :ivar aborts: the system outside aborts these of the transactions that are to be committed
    :ivar forgets: sinks have a fault: what is to be published counts as visible
    """

    folder: Path
    path: str | None = None
    policy: RollingPolicy = field(default_factory=lambda: RollingPolicy(on_checkpoint=True))
    records: int = 24
    step: int = 4
    parallelism: int = 2
    awaits: bool = True
    traps: tuple[Trap, ...] = ()
    consumes: bool = False
    inline: int = 1 << 16
    stop: int | None = None
    forgets: bool = False
    sink: str = "files"
    aborts: tuple[int, ...] = ()
    checkpoints: dict[str, Any] = field(default_factory=dict)


class Points:
    """In the driver's process: counts what it comes by, and springs the traps."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._passed: set[str] = set()
        self._met: Counter[Trap] = Counter()
        self._lock = threading.RLock()
        self._root = str(drive.folder)
        self._busy = threading.local()

    def install(self) -> None:
        for name, (owner, attribute) in POINTS.items():
            self.watch(name, owner, attribute)
        if any(trap.at == FILES for trap in self._drive.traps):
            sys.addaudithook(self._audit)

    def set(self, traps: tuple[Trap, ...]) -> None:
        """From now on only these; the points of before don't count."""
        with self._lock:
            self._drive = replace(self._drive, traps=traps)
            self._passed.clear()
            self._met.clear()

    def watch(self, name: str, owner: Any, attribute: str) -> None:
        setattr(owner, attribute, self._watched(name, getattr(owner, attribute)))

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.come(f"before {name}")
            result = function(*args, **kwargs)
            self.come(f"after {name}")
            return result

        return watched

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        changes = event in _CHANGES or (event == "open" and isinstance(args[2], int) and bool(args[2] & _WRITING))
        if changes and not getattr(self._busy, "now", False) and str(args[0]).startswith(self._root):
            self.come(FILES)

    def come(self, point: str) -> None:
        with self._lock:
            self._busy.now = True
            if self._drive.consumes:
                take_away(self._drive.folder)
            self._busy.now = False
            sprung = []
            for trap in self._drive.traps:
                if trap.at == point and (not trap.since or trap.since in self._passed):
                    self._met[trap] += 1
                    sprung += [trap] if self._met[trap] == trap.nth else []
            self._passed.add(point)
        for trap in sprung:
            self._spring(trap)

    def _spring(self, trap: Trap) -> None:
        if trap.act == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif trap.act == "pause":
            (self._drive.folder / f"paused-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        elif trap.act == "slow":
            time.sleep(0.1)
        elif trap.act == "hold":
            # What hangs is a task elsewhere: steps go on, so it must not keep them from their turn.
            with contextlib.suppress(RuntimeError):
                one_at_a_time.release()
            threading.Event().wait()
        else:
            raise OSError(f"the disk is away: {trap.at}")


def take_away(folder: Path) -> None:
    """Whoever reads the output takes it."""
    for path in (folder / "out").glob("*part-*"):
        with contextlib.suppress(FileNotFoundError):  # another one has it
            path.rename(folder / "taken" / f"{path.name}-{uuid.uuid4().hex}")


def drive(given: Drive) -> None:
    """Run a job to its end: the whole life of a driver's process."""
    logging.getLogger("beadline").setLevel(logging.CRITICAL)
    os.fsync = lambda descriptor: None  # type: ignore[assignment]  # processes die here, not machines
    pieces._INLINE = given.inline
    calls._LIGHT = given.inline - 1  # tasks do the rest
    if given.forgets:
        Sinks.completed = _forgetful(Sinks.completed)  # type: ignore[method-assign]
    Points(given).install()
    ends = list(range(given.step, given.records + 1, given.step))
    source = Numbers(ends if given.stop is None else [], given.stop is None, given.awaits)
    plan = counting_plan(source, sink_of(given), parallelism=given.parallelism)
    options = {"interval_ms": 10 if given.stop is None else 10**6, "restore_path": given.path, **given.checkpoints}
    reports: list[StepReport] = []

    def hear(news: Any) -> None:
        if isinstance(news, StepReport):
            reports.append(news)

    try:
        master = JobMaster(plan, LocalEngine(), settings_of(given.folder, **options), watchers=[hear])
    except JobFinishedError:
        os._exit(FINISHED_BEFORE)
    except SnapshotError as refusal:
        (given.folder / "refusal").write_text(str(refusal))
        os._exit(REFUSED)
    except OSError:
        os._exit(FAILED)
    master.start()
    for number, kind in enumerate((CheckpointKind.CHECKPOINT, CheckpointKind.STOP_WITH_SAVEPOINT), start=1):
        if given.stop is not None:
            source.ends.append(number * given.stop // 2)
            until(lambda: len(reports) == number)  # noqa: B023
            master.trigger(kind, str(given.folder / "savepoints")).result(20)
    if not master.wait(30):
        print(f"{master!r} did not end", file=sys.stderr)
        os._exit(HANGS)
    if master.error is not None:
        print(f"{master.end!r}: {''.join(traceback.format_exception(master.error))}", file=sys.stderr)
    os._exit(FENCED if master.end is End.FENCED else FAILED if master.error is not None else 0)


def sink_of(given: Drive) -> Any:
    out = str(given.folder / "out")
    if given.sink == "transactions":
        return TransactionalSink(_aborting(Ledger(out), given.aborts), as_text, "count")
    if given.sink == "log":
        return LogSink(Journal(out), as_text)
    return _FILES[given.sink](out, given.policy)


def _aborting(ledger: Ledger, which: tuple[int, ...]) -> Ledger:
    """The nth commits find that the transaction was aborted."""
    numbers = itertools.count(1)
    commit = ledger.commit

    def aborted(handle: Any) -> Any:
        if next(numbers) in which:
            ledger.abort(handle)
        return commit(handle)

    if which:
        ledger.commit = aborted  # type: ignore[method-assign]
    return ledger


def _forgetful(completed: Callable[..., Any]) -> Callable[..., Any]:
    def forgetting(sinks: Sinks, checkpoint: int) -> Any:
        ready = completed(sinks, checkpoint)
        sinks._outputs.clear()
        return ready

    return forgetting


_CONTEXT = multiprocessing.get_context("forkserver")
# pyarrow imports pandas when it is first used, which takes longer than the rest of a driver's life.
_PRELOADED = ["tests.master.snapshots.commanded", "pyarrow.pandas_compat", "pyarrow.compute", "pandas"]
_CONTEXT.set_forkserver_preload([__name__, *_PRELOADED])


def start(given: Drive) -> Any:
    """A driver's process."""
    for name in ("out", "taken"):
        (given.folder / name).mkdir(parents=True, exist_ok=True)
    process = _CONTEXT.Process(target=drive, args=(given,), daemon=True)
    process.start()
    return process


def ended(process: Any) -> int:
    """How it ended."""
    process.join(60)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("the driver hangs")
    return int(process.exitcode)


def killed(folder: Path, checkpoints: int = 1, **settings: Any) -> list[str]:
    """Where the checkpoints were made of a driver that was killed after some, one every three records."""
    noted = folder / "checkpoints.json"
    process = _CONTEXT.Process(target=_checkpoints_and_death, args=(folder, noted, checkpoints, settings), daemon=True)
    process.start()
    assert ended(process) == KILLED
    pointers: list[str] = json.loads(noted.read_text())
    noted.unlink()
    return pointers


def _checkpoints_and_death(folder: Path, noted: Path, checkpoints: int, settings: dict[str, Any]) -> None:
    job = LocalJob(folder, **{"inline_threshold": 0, **settings})
    pointers = []
    for _ in range(checkpoints):
        job.step()
        pointers.append(job.checkpoint())
    noted.write_text(json.dumps(pointers))
    os.kill(os.getpid(), signal.SIGKILL)


def paused(process: Any, folder: Path) -> None:
    """Wait until a driver has come to where it is to be paused."""
    until(lambda: (folder / f"paused-{process.pid}").exists() or process.exitcode is not None)
    assert process.exitcode is None, "it never came there"


def go_on(process: Any) -> None:
    os.kill(process.pid, signal.SIGCONT)


def run(given: Drive) -> int:
    """Run a driver, and wait for its end."""
    return ended(start(given))
