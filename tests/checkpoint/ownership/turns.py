"""Two drivers of one job over one folder, paused wherever they touch a file.

A driver here does what the job master does with a checkpoint, in the same order and with the shipped storage, lease,
lineage and file sink, but in one thread: so a test can say before which file operation it stops, and for how long.

Record ``n`` is the row ``n`` of the output, and each checkpoint holds one record more. The whole output is known:
each row once, up to the position of the newest checkpoint.
"""

from __future__ import annotations

import builtins
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.checkpoint.directory.lookup import folder_of
from beadline.checkpoint.ownership.lease import Fenced, counts
from beadline.checkpoint.storage.durable import verify
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.checkpoint.storage.publishing import Stored
from beadline.checkpoint.storage.storage import SharedFiles
from beadline.connectors.files import RollingPolicy, RowFileSink, pieces, renaming
from beadline.connectors.files.place import publish
from beadline.connectors.sink import Held
from beadline.errors import BeadlineError
from beadline.master.snapshots.outputs import _run_of, former_drivers
from beadline.state.segments import files
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, next_version, root_version
from tests.checkpoint.snapshots import JOB, place_in, segment_bytes

#: How many operations somebody has who is not stopped again.
TO_THE_END = 1 << 30
_PATIENCE_SECONDS = 60


# -- who runs


class Turns:
    """Lets one driver run at a time, for as many file operations as the plan says; after the plan each to its end.

    :ivar operations: how many each has begun
    """

    def __init__(self, plan: Iterable[tuple[str, int]], between: Callable[[], None]) -> None:
        self.operations: dict[str, int] = {}
        self._plan = list(plan)
        self._between = between
        self._left = 0
        self._go: dict[str, threading.Semaphore] = {}
        self._actor = threading.local()
        self._all_over = threading.Event()
        self._errors: list[BaseException] = []

    def play(self, actors: dict[str, Callable[[], None]]) -> None:
        self._go = {name: threading.Semaphore(0) for name in actors}
        self._plan += [(name, TO_THE_END) for name in actors]
        threads = [threading.Thread(target=self._run, args=actor, daemon=True) for actor in actors.items()]
        for thread in threads:
            thread.start()
        self._next()
        assert self._all_over.wait(_PATIENCE_SECONDS)
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def come_by(self) -> None:
        """A driver is about to touch a file."""
        name = getattr(self._actor, "name", None)
        if name is None:
            return
        self.operations[name] = self.operations.get(name, 0) + 1
        while self._left == 0:
            self._actor.name = None  # what is looked at now is no operation of the driver's
            self._between()
            self._next()
            assert self._go[name].acquire(timeout=_PATIENCE_SECONDS)
            self._actor.name = name
        self._left -= 1

    def _run(self, name: str, act: Callable[[], None]) -> None:
        assert self._go[name].acquire(timeout=_PATIENCE_SECONDS)
        self._actor.name = name
        try:
            act()
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._actor.name = None
            del self._go[name]
            try:
                self._between()
            except BaseException as error:
                self._errors.append(error)
            self._next()

    def _next(self) -> None:
        while self._plan:
            name, self._left = self._plan.pop(0)
            if self._left and name in self._go:
                self._go[name].release()
                return
        self._all_over.set()


@contextmanager
def gated(come_by: Callable[[], None]) -> Iterator[None]:
    """Every file operation of the process comes by. Nothing is synced: no machine crashes here."""

    def through(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            come_by()
            return function(*args, **named)

        return call

    opened = through(os.open)

    def either(path: Any, flags: int, *mode: int, **named: Any) -> int:
        return int((opened if flags & os.O_EXCL else ungated)(path, flags, *mode, **named))

    ungated = os.open
    with pytest.MonkeyPatch.context() as patch:
        for name in ("scandir", "rename", "replace", "unlink", "rmdir", "mkdir", "stat"):
            patch.setattr(os, name, through(getattr(os, name)))
        patch.setattr(os, "open", either)
        patch.setattr(os, "fsync", lambda _: None)
        for module in (files, pieces, renaming):
            patch.setattr(module, "open", through(builtins.open), raising=False)
        yield


# -- a driver


class Driver:
    """A job that goes on from its newest checkpoint, if there is one.

    :param retained: how many checkpoints it keeps
    :param at_once: remove what a checkpoint subsumes before its output is published, not afterwards
    :param rows: how many rows make a file
    :ivar position: how many records the newest checkpoint holds that it knows to be complete
    :ivar completed: number and position of those
    :ivar subsumed: the checkpoints that it has done with, because a newer one is complete
    :ivar fenced: whether it has found itself fenced
    """

    def __init__(self, folder: Path, retained: int = 1, at_once: bool = False, rows: int = 2) -> None:
        self.folder = folder
        self.storage: FileJobStorage = place_in(folder / "checkpoints")
        self.position = 0
        self.completed: list[tuple[int, int]] = []
        self.fenced = False
        self._retained, self._at_once, self._rows = retained, at_once, rows
        self.subsumed: set[int] = set()
        self._segments: tuple[SegmentRef, ...] = ()
        self._known: dict[int, tuple[str, Any]] = {}
        self._number = 0

    def live(self, checkpoints: int, ends: bool = False) -> None:
        try:
            self.begin()
            for left in reversed(range(checkpoints)):
                self._look_if_it_fails(partial(self.checkpoint, final=ends and not left))
        except Fenced:
            self.fenced = True

    def _look_if_it_fails(self, act: Callable[[], None]) -> None:
        """A job that fails goes back, and looks at its lease first. Here nothing else than a fence makes it fail."""
        try:
            act()
        except (BeadlineError, OSError):
            self.storage.check()
            raise

    def begin(self) -> None:
        """Take the job, go back to its newest checkpoint, and publish what that holds."""
        storage = self.storage
        storage.acquire()
        self._look_if_it_fails(self._go_back)

    def _go_back(self) -> None:
        storage = self.storage
        listed = storage.completed()
        self._registry = SharedFiles([storage.owned_folder()])
        for entry in listed:
            assert entry.snapshot is not None, entry
            self._registry.register(entry.checkpoint_id, entry.snapshot.files())
            self._known[entry.checkpoint_id] = entry.pointer, entry.snapshot.committables()["sink"]
        self._number = storage.highest_number()
        self._sink = RowFileSink(
            str(self.folder / "out"),
            str.encode,
            lambda record, now: "",
            RollingPolicy(part_size=3 * self._rows),
            suffix=".txt",
        )
        lineage = storage.lineage
        former = former_drivers(lineage, storage.job_id, "sink")
        self._sink.prepare(_run_of(lineage.name, "sink"), storage.epoch, "", lineage.driver.name, former)
        self._committer = self._sink.committer()
        storage.note_outputs({"sink": self._sink.whereabouts()})
        held = {"staged": self._committer.snapshot(), "committables": []}
        epoch, live = None, set[str]()
        if listed:
            start = listed[0].snapshot
            assert start is not None
            assert verify(start) == []
            counter = start.operator("counter")
            assert counter is not None
            assert counter.keyed[0] is not None
            self.position, self._segments = offset_of(start), counter.keyed[0].segments
            held = start.committables()["sink"]
            epoch, live = start.epoch if lineage.has_taken(start) else None, set(start.files())
        storage.check()
        self._committer.restore(held["staged"], [_held(held), *self._needed()], epoch)
        for committable in held["committables"]:
            publish(committable)
        self._committer.tidy(self._needed(), idle=True)
        storage.delete(storage.orphans(live | self._registry.files()))

    def checkpoint(self, final: bool = False) -> None:
        """A step with one record, and a checkpoint of it."""
        stored, held = self._write(final)
        number = stored.snapshot.checkpoint_id
        self._known[number] = stored.pointer, held
        self.completed.append((number, self.position))
        assert counts(self.storage.folder, number, self.storage.epoch), "what is complete counts"
        if self._at_once:
            self._discard_subsumed()
        for committable in held["committables"]:
            publish(committable)
        if not self._at_once:
            self._discard_subsumed()
        self._committer.tidy(self._needed(), idle=False)

    def _write(self, final: bool) -> tuple[Stored, Any]:
        storage, committer = self.storage, self._committer
        state = storage.state_folder(1, True)
        row = f"{self.position:02}\n"
        committer.sealed([pieces.in_file(self._sink.names.staging, "", 0, [row.encode()])], 0, final)
        data = segment_bytes(self.position, keys=2)
        root = root_version(JOB, "counter", range(128))
        version = next_version(root, data + storage.epoch.to_bytes(4))
        new = SegmentFiles(state).store(f"{version}.run", data, version, 2)
        self._segments = (*self._segments, new)[-2:]
        parts = committer.due(True)
        make_ready = committer.precommitter()
        held = {"staged": committer.snapshot(), "committables": [make_ready(part) for part in parts]}
        committer.make_durable(held["staged"])
        self._number += 1
        number, position = self._number, self.position + 1
        operators = (
            OperatorSnapshot("source", "numbers", 1, 128, position={"offset": position}),
            OperatorSnapshot("counter", "count", 1, 128, keyed=(KeyedStateHandle(root, self._segments),)),
            OperatorSnapshot("sink", "files", 1, 128, committables=held),
        )
        taken = Snapshot(number, JOB, "job", number, number, operators)
        self._registry.register(number, taken.files())
        stored = storage.write(taken)
        self._registry.register(number, stored.snapshot.files())
        self.position = position
        return stored, held

    def live_and_go_back(self) -> None:
        """Three checkpoints are complete, but the job fails before it hears of the last one, and goes back behind it.
        Then it goes on."""
        try:
            self.begin()
            for _ in range(2):
                self._look_if_it_fails(self.checkpoint)
            self._look_if_it_fails(self._go_back_behind)
            self._look_if_it_fails(self.checkpoint)
        except Fenced:
            self.fenced = True

    def _go_back_behind(self) -> None:
        position, segments = self.position, self._segments
        stored, _ = self._write(final=False)
        self.position, self._segments = position, segments
        self.storage.check()
        self.storage.withdraw(stored.pointer)
        freed = self._registry.release(stored.snapshot.checkpoint_id)
        self.storage.check()
        held = self._known[max(self._known)][1]
        self._committer.restore(held["staged"], [_held(held), *self._needed()], self.storage.epoch)
        for committable in held["committables"]:
            publish(committable)
        self._committer.tidy(self._needed(), idle=True)
        self.storage.delete(freed)

    def _discard_subsumed(self) -> None:
        for number in sorted(self._known)[: -self._retained]:
            pointer, _ = self._known.pop(number)
            self.subsumed.add(number)
            self.storage.discard(pointer)
            self.storage.delete(self._registry.release(number))

    def _needed(self) -> list[Held]:
        return [_held(held) for _, held in self._known.values()]


def is_fenced(driver: Driver) -> bool:
    try:
        driver.storage.check()
    except Fenced:
        return True
    return False


def offset_of(snapshot: Snapshot) -> int:
    source = snapshot.operator("source")
    assert source is not None
    assert source.position is not None
    return int(source.position["offset"])


def _held(held: Any) -> Held:
    return Held(held["staged"], [], held["committables"])


# -- a story


class Story:
    """What becomes of a job while two drivers have it by turns.

    :param consumes: somebody takes visible files away whenever a driver is stopped
    :param goes_back: the former driver goes back behind a checkpoint, and the next one dies before it has one
        of its own
    """

    def __init__(
        self, plan: list[tuple[str, int]], consumes: bool = False, goes_back: bool = False, **drivers: Any
    ) -> None:
        base = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = Path(tempfile.mkdtemp(prefix="beadline-turns-", dir=base))
        self._consumes, self._goes_back = consumes, goes_back
        self._taken: list[str] = []
        self._seen: set[str] = set()
        self._options = drivers
        self.former, self.next = Driver(self.folder, **drivers), Driver(self.folder, **drivers)
        self.turns = Turns(plan, self._between)

    def _rows(self) -> list[str]:
        found = list(self._taken)
        for path in self.folder.glob("out/part-*"):
            rows = path.read_text().splitlines()
            found += rows
            if self._consumes:
                path.unlink()
                self._taken += rows
        return found

    def _between(self) -> None:
        rows = self._rows()
        assert len(set(rows)) == len(rows), f"twice: {sorted(rows)}"
        assert self._seen <= set(rows), "what was visible has gone"
        self._seen = set(rows)

    def tell(self) -> None:
        try:
            with gated(self.turns.come_by):
                former = self.former.live_and_go_back if self._goes_back else lambda: self.former.live(3)
                self.turns.play({"former": former, "next": lambda: self.next.live(0 if self._goes_back else 2)})
            self._check()
        finally:
            shutil.rmtree(self.folder)

    def _check(self) -> None:
        drivers = sorted((self.former, self.next), key=lambda driver: driver.storage.epoch)
        assert [driver.storage.epoch for driver in drivers] in ([1, 2], [0, 2], [0, 1]), "no two epochs alike"
        loser, winner = drivers
        if loser.storage.epoch and not loser.fenced:
            loser.fenced = is_fenced(loser)
        assert loser.fenced or not loser.storage.epoch, "a driver that wakes up too late finds itself fenced"
        assert not winner.fenced
        assert not is_fenced(winner)
        completed = [each for driver in drivers for each in driver.completed]
        assert len({number for number, _ in completed}) == len(completed), "no number twice"
        listed = winner.storage.completed()
        assert listed or not completed
        for entry in listed:
            assert entry.snapshot is not None, entry
            if entry.checkpoint_id not in loser.subsumed:
                assert verify(entry.snapshot) == [], "all is there that a checkpoint names which counts"
        newest = listed[0].snapshot if listed else None
        if completed:
            assert newest is not None
            assert offset_of(newest) >= max(offset for _, offset in completed), "what was completed counts for ever"
        if winner.completed:
            assert newest is not None
            assert newest.checkpoint_id == winner.completed[-1][0]
        # Whatever is left of them, a third one goes on.
        last = Driver(self.folder, **self._options)
        last.live(2, ends=True)
        assert not last.fenced
        assert last.storage.epoch == winner.storage.epoch + 1
        self._between()
        assert sorted(self._rows()) == [f"{n:02}" for n in range(last.position)]
        assert {folder_of(entry.pointer) for entry in last.storage.completed()} == {
            str(path) for path in (self.folder / "checkpoints" / JOB).glob("chk-*")
        }
