"""A model of jobs, their ids, folders, savepoints and outputs, and histories that compare it with what is on disk.

The law:

1. A *lineage* begins when a driver starts from nothing, or from anything but a checkpoint of the folder (directory and
   id) that it works in: from a savepoint, from a checkpoint of another job or directory, from a copy of its own.
2. A driver that starts from a checkpoint of its own folder, or goes back to one, goes on in that checkpoint's lineage.
   It takes back exactly what this lineage has published and what does not belong to the checkpoint's past, whatever
   base path, prefix and suffix that was published with.
3. Nothing else is ever removed: nothing of another job, of a namesake, of the same id after its folder was removed, of
   the job that a savepoint came from or of a copied directory.
4. A checkpoint's output is visible when the checkpoint has completed, each row once. If the driver died before that,
   it is when somebody starts from that checkpoint; what has been published is used up, and does not come again.
5. A savepoint publishes nothing, unless the job stops with it. What was open when it was taken belongs to both, the
   job that goes on and those that start from the savepoint, and each publishes it. What was made ready is published
   once, by whoever comes first; so is what a checkpoint holds from which several jobs start.
6. A driver that dies has done all of an act or some of it: each row is there or not. No row is visible before the
   checkpoint that holds it is on disk.
7. A path has one content in all its life.

Systems outside take nothing back: of 2 only the first half holds for them, and rows that were published after the
snapshot come again. What was made ready there may be given up by a driver that goes on from elsewhere; then its rows
are written again by whoever starts from a snapshot that names it.

A history is a list of acts with numbers that choose; what does not apply is passed over. So it can be made shorter by
leaving acts out: :func:`shortened`.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from beadline.checkpoint.contents.metadata import METADATA
from beadline.checkpoint.directory.jobs import read_trace
from beadline.checkpoint.directory.lookup import list_job
from tests.master.snapshots.commanded import Commanded, Died, Order, Refused, Target
from tests.master.snapshots.drivers import POINTS, Trap
from tests.master.snapshots.local_jobs import KEYS, rows_in

# -- the model


class Lineage:
    """Who may take back what."""


@dataclass(eq=False)
class Row:
    """A row that was handed out for a checkpoint.

    :ivar lineage: whose it is: of who published it, once it is visible
    :ivar visible: None if a driver died on the way; ``was`` is then what to go back to
    """

    text: str
    uid: str
    place: str
    lineage: Lineage
    visible: bool = False
    used_up: bool = False
    uncertain: str = ""

    def publish(self, lineage: Lineage) -> None:
        if not self.used_up:
            self.visible = self.used_up = True
            self.lineage = lineage

    def take_back(self) -> None:
        self.visible = False


@dataclass
class Branch:
    """What a snapshot holds, and what a driver goes on from.

    :ivar records: how many were read
    :ivar open: what is staged, by sink
    :ivar due: what was handed out and is published by the next checkpoint
    :ivar past: all that this lineage has handed out up to here, and what it found ready when it began
    """

    lineage: Lineage
    records: int = 0
    open: dict[str, list[str]] = field(default_factory=dict)
    due: list[Row] = field(default_factory=list)
    past: frozenset[Row] = frozenset()

    def copy(self) -> Branch:
        return replace(self, open={uid: list(rows) for uid, rows in self.open.items()}, due=list(self.due))


@dataclass(eq=False)
class Snapshot:
    """A checkpoint or savepoint that is complete.

    :ivar home: the folder that it was made in
    :ivar places: where sinks wrote to then
    """

    branch: Branch
    home: str
    is_savepoint: bool
    places: dict[str, str]
    damaged: bool = False


@dataclass(eq=False)
class Job:
    """A driver that is alive, as the model sees it."""

    driver: Commanded
    folder: str
    branch: Branch
    targets: dict[str, Target]
    start: Branch
    ends: int = 0

    def snapshot(self, is_savepoint: bool) -> Snapshot:
        places = {uid: target.place for uid, target in self.targets.items()}
        return Snapshot(self.branch.copy(), self.folder, is_savepoint, places)


# -- the world


@dataclass(frozen=True)
class Act:
    """What happens, and the numbers that choose how."""

    name: str
    dice: tuple[int, ...]


ALL_POINTS = [f"{side} {name}" for name in POINTS for side in ("before", "after")]


class System:
    """What jobs write to. This one is folders.

    :ivar takes_back: whether a job that goes back removes what it has published since
    """

    name = "files"
    url = ""
    takes_back = True
    points: tuple[str, ...] = ()
    places: tuple[str, ...] = ("out0", "out1")

    def make(self, root: Path, name: str) -> str:
        (root / name).mkdir()
        return str(root / name)

    def seen(self, place: str) -> list[str]:
        """What a reader sees."""
        return rows_in(place)


FILES = System()


class World:
    """The real thing, with the model of it at its side."""

    def __init__(self, root: Path, system: System) -> None:
        self.root = root
        self.system = system
        self.points = [*ALL_POINTS, *(f"{side} {name}" for name in system.points for side in ("before", "after"))]
        self.jobs: list[Job] = []
        self.snapshots: dict[str, Snapshot] = {}
        self.rows: list[Row] = []
        self.contents: dict[str, bytes] = {}
        self.story: list[str] = []
        self.done = 0
        self._tags = itertools.count()
        self._copies = itertools.count(1)
        self.directories = [str(root / name) for name in ("cp0", "cp1")]
        self.outputs = [system.make(root, name) for name in system.places]
        self.savepoints = str(root / "savepoints")
        self._again: list[tuple[Branch, Row]] = []
        for path in self.directories:
            os.makedirs(path)

    def tell(self, text: str) -> None:
        self.story.append(text)

    def close(self) -> None:
        for job in self.jobs:
            job.driver.kill()
        self.jobs.clear()

    def perform(self, act: Act) -> None:
        """Do it, and compare."""
        told = len(self.story)
        getattr(self, "act_" + act.name)(Chooser(act.dice))
        if len(self.story) > told:
            self.check()

    # -- what is compared

    def check(self) -> None:
        for folder in self.outputs:
            own = [row for row in self.rows if row.place == folder]
            sure = Counter(row.text for row in own if row.visible and not row.uncertain)
            unsure = [row for row in own if row.uncertain]
            seen = Counter(self.system.seen(folder))
            lost = sure - seen
            more = seen - sure
            doubled = more - Counter(row.text for row in unsure)
            assert not lost, f"{_short(lost)} of {Path(folder).name} are lost"
            assert not doubled, f"{_short(doubled)} of {Path(folder).name} must not be there, or not so often"
            for row in unsure:
                there = more[row.text] > 0
                more[row.text] -= there
                if row.uncertain == "published":
                    row.visible = row.used_up = there
                else:
                    row.visible = there
                row.uncertain = ""
        for branch, row in self._again:
            if not row.visible:  # its transaction was aborted, and is written again
                made = Row(row.text, row.uid, row.place, branch.lineage)
                self.rows.append(made)
                branch.due.append(made)
                branch.past = branch.past - {row} | {made}
        self._again.clear()
        if self.system.takes_back:
            self._check_names()
        for job in self.jobs:
            self._check_branch(job)

    def _check_names(self) -> None:
        for folder in self.outputs:
            for path in sorted(Path(folder).rglob("*part-*")):
                if ".staging-" not in str(path):
                    content = path.read_bytes()
                    before = self.contents.setdefault(str(path), content)
                    assert before == content, f"{path.name} had another content: {before!r}, {content!r}"

    def _check_branch(self, job: Job) -> None:
        """The model itself: from where its lineage began, a job's rows are published or on their way, each once."""
        for uid in job.targets:
            numbers = [int(text.split(":")[1]) for text in job.branch.open.get(uid, ())]
            numbers += [int(row.text.split(":")[1]) for row in job.branch.past if row.uid == uid]
            assert len(set(numbers)) == len(numbers), "the model doubles rows"

    # -- starting

    def act_start(self, dice: Chooser) -> None:
        if len(self.jobs) == 2:
            return
        directory = dice.one_of(self.directories)
        job_id = dice.one_of(["x", "x", "y", None])
        path: str | None = None
        source: Snapshot | None = None
        kind = dice.one_of(
            ["nothing", "newest", "newest", "newest", "checkpoint", "checkpoint", "elsewhere", "savepoint"]
        )
        if kind == "newest":
            folder = dice.one_of(self._resumable())
            if folder is not None:
                path, directory, job_id = folder, str(Path(folder).parent), dice.one_of([Path(folder).name, None])
                source = self._newest(folder)
                if job_id is not None and dice.chance(2):
                    path = "latest"
        elif kind == "checkpoint":
            path = dice.one_of(self._pointers(savepoints=False))
            if path is not None:
                directory = str(Path(path).parent.parent)
                job_id = dice.one_of([Path(path).parent.name, None])
        elif kind == "elsewhere":
            path = dice.one_of(self._pointers(savepoints=False))
        elif kind == "savepoint":
            path = dice.one_of(self._pointers(savepoints=True))
        if source is None and path is not None:
            source = self.snapshots[path]
        self._start(dice, directory, job_id, path, source)

    def _start(
        self,
        dice: Chooser,
        directory: str,
        job_id: str | None,
        path: str | None,
        source: Snapshot | None,
    ) -> None:
        number = next(self._tags)
        tag = f"d{number}"
        targets = {"sink": self._target(dice, 2 * number)}
        if dice.chance(3):
            targets["second"] = replace(self._target(dice, 2 * number + 1), prefix="part-second")
        trap = self._trap(dice, one_in=6)
        own, home = False, f"{directory}/{job_id}"
        if source is not None and path is not None:
            if not source.is_savepoint and path != "latest" and job_id is None:
                home = str(Path(path).parent) if path in self.snapshots else path
            own = not source.is_savepoint and source.home == home and Path(home).parent == Path(directory)
            if self._hides_output(source, targets, own):
                return
        takes = source is not None and not source.is_savepoint and Path(home).parent == Path(directory)
        former = [job for job in self.jobs if takes and job.folder == home and self._in_folder(path, home)]
        fences = path != "latest" and dice.chance(3)
        order = Order(str(self.root), directory, job_id, path, targets, tag, dice.one_of([1, 1, 2]), trap)
        self.tell(f"start {tag}: {Path(directory).name}/{job_id or '?'} from {self._say(path)}{self._say_trap(trap)}")
        for uid, target in targets.items():
            where = f"{Path(target.place).name}/{target.prefix}*{target.suffix}"
            self.tell(f"  {uid} to {where}{'' if target.rolls else ', open to the end'}")
        for job in former:
            self.jobs.remove(job)
            self.tell(f"  from {job.driver.order.tag}, which is {'fenced' if fences else 'killed'}")
            if not fences:
                job.driver.kill()
        try:
            driver = Commanded(order)
        except Refused as refusal:
            self.tell(f"  refused: {str(refusal)[:300]}")
            is_over = "was stopped with" in str(refusal) or "finished at" in str(refusal)
            # What a snapshot names is followed only within the sink's own place.
            moved = source is not None and any(source.places.get(uid, t.place) != t.place for uid, t in targets.items())
            assert is_over or not own or (moved and "no file of the sink" in str(refusal)), refusal  # noqa: PT017
        except Died:
            self.tell("  died")
            self._begin(source, own, targets, uncertain=True)
        else:
            branch = self._begin(source, own, targets, uncertain=False)
            self.jobs.append(Job(driver, f"{directory}/{driver.job_id}", branch, targets, branch.copy()))
            self.tell(f"  goes on at {branch.records}, {'own' if own else 'a new lineage'}")
        self._sync()
        for job in former:
            job.driver.kill()
        if (
            source is not None
            and not source.is_savepoint
            and not own
            and self.jobs
            and self.jobs[-1].driver.order is order
        ):
            # What it started from is another job's, which may remove it: a first checkpoint makes it independent.
            self.check()
            self._checkpoint(self.jobs[-1], None)

    def _in_folder(self, path: str | None, folder: str) -> bool:
        """Whether a job that starts from there goes on in that folder, and fences who has it."""
        return path in ("latest", folder) or (path is not None and str(Path(path).parent) == folder)

    def _begin(self, source: Snapshot | None, own: bool, targets: dict[str, Target], uncertain: bool) -> Branch:
        """What follows from starting with a snapshot."""
        if source is None:
            return Branch(Lineage(), open={uid: [] for uid in targets})
        lineage = source.branch.lineage if own else Lineage()
        past = source.branch.past if own else frozenset(row for row in source.branch.due if row.uid in targets)
        branch = replace(source.branch.copy(), lineage=lineage, past=past)
        self._restore(branch, targets, uncertain)
        return branch

    def _restore(self, branch: Branch, targets: dict[str, Target], uncertain: bool) -> None:
        """A driver goes on from here, or goes back to it."""
        for row in self.rows if self.system.takes_back else ():
            if row.lineage is branch.lineage and row.visible and row.uid in targets and row not in branch.past:
                if uncertain:
                    row.uncertain = "taken back"
                else:
                    row.take_back()
        for row in branch.due:
            if row.uid in targets and not row.used_up:
                if uncertain or not self.system.takes_back:
                    row.uncertain = "published"
                    if not uncertain:
                        self._again.append((branch, row))
                else:
                    row.publish(branch.lineage)
        branch.due = []
        branch.open = {uid: branch.open.get(uid, []) for uid in targets}

    def _hides_output(self, source: Snapshot, targets: dict[str, Target], own: bool) -> bool:
        """Whether a sink was removed that has something to publish or to take back: then nobody can."""
        branch = source.branch
        if any(row.uid not in targets for row in branch.due if not row.used_up):
            return True
        return (
            own
            and self.system.takes_back
            and any(
                row.uid not in targets
                for row in self.rows
                if row.lineage is branch.lineage and row.visible and row not in branch.past
            )
        )

    def _target(self, dice: Chooser, number: int) -> Target:
        place = dice.one_of([self.outputs[0]] * 3 + [self.outputs[-1]])
        suffix = dice.one_of(["", "", ".txt", ".log"])
        prefix = dice.one_of(["part", "part", "part", "mypart"])
        rolls = dice.one_of([True, True, True, False]) or not self.system.takes_back
        # What is open in a topic hides what comes after it from readers: a partition for each driver and sink.
        return Target(place, prefix, suffix, rolls, self.system.name, self.system.url, number)

    def _trap(self, dice: Chooser, one_in: int) -> tuple[Trap, ...]:
        chosen, point, nth = dice.chance(one_in), dice.one_of(self.points), dice.one_of([1, 1, 2])
        return (Trap(point, nth),) if chosen else ()

    def _say_trap(self, trap: tuple[Trap, ...]) -> str:
        return "".join(f", dies {each.at} ({each.nth})" for each in trap)

    def _say(self, path: str | None) -> str:
        return "nothing" if path is None else path.removeprefix(f"{self.root}/")

    # -- what jobs do

    def act_work(self, dice: Chooser) -> None:
        """Some records, and a checkpoint."""
        job = dice.one_of(self.jobs)
        if job is None:
            return
        trap = self._trap(dice, one_in=4)
        fails = not trap and dice.chance(5)
        self._step(job, 1 + dice.number(4))
        if fails:
            self.tell(f"{job.driver.order.tag}: a checkpoint fails")
            job.driver.do("checkpoint_that_fails")
            self._hand_out(job)
            return
        self._checkpoint(job, trap[0] if trap else None)

    def _checkpoint(self, job: Job, trap: Trap | None) -> None:
        self.tell(f"{job.driver.order.tag}: checkpoint{self._say_trap((trap,) if trap else ())}")
        before = self._on_disk()
        try:
            pointer = job.driver.do("checkpoint", trap=trap)
        except Died:
            self._hand_out(job)
            self._died(job, before)
            return
        self._hand_out(job)
        self.snapshots[pointer] = job.snapshot(False)
        self._publish(job)
        self._sync()

    def _step(self, job: Job, count: int) -> None:
        end = job.branch.records + count
        job.driver.do("step", end)
        self._read(job, end)
        self.tell(f"{job.driver.order.tag}: reads up to {end}")

    def _read(self, job: Job, end: int) -> None:
        for number in range(job.branch.records, end):
            for uid in job.targets:
                job.branch.open[uid].append(f"{job.driver.order.tag}:{number}:{number // KEYS + 1}")
        job.branch.records = end
        job.ends = max(job.ends, end)

    def _hand_out(self, job: Job, final: bool = False) -> None:
        """What is complete at a checkpoint is on its way."""
        for uid, target in job.targets.items():
            if target.rolls or final:
                made = [Row(text, uid, target.place, job.branch.lineage) for text in job.branch.open[uid]]
                job.branch.open[uid] = []
                job.branch.due += made
                job.branch.past |= frozenset(made)
                self.rows += made

    def _publish(self, job: Job) -> None:
        for row in job.branch.due:
            row.publish(job.branch.lineage)
        job.branch.due = []

    def _died(self, job: Job, before: set[str], savepoint: bool = False) -> None:
        """In the middle of a checkpoint, or of a savepoint to stop with: was it there?"""
        self.jobs.remove(job)
        job.driver.kill()
        found = self._on_disk() - before
        own = {path for path in found if savepoint or str(Path(path).parent) == job.folder}
        self.tell(f"  died; {', '.join(map(self._say, sorted(own))) or 'nothing'} appeared")
        trace = read_trace(job.folder)
        if own or trace is not None:
            for row in job.branch.due:
                if not row.used_up:
                    row.uncertain = "published"
        for path in own:
            self.snapshots[path] = job.snapshot(savepoint)
        if trace is not None and not trace.is_stopping and not savepoint:
            for row in job.branch.due:  # the note says that all is visible
                row.uncertain = ""
                row.publish(job.branch.lineage)
        self._sync()

    def act_fail(self, dice: Chooser) -> None:
        """A record fails once: the job goes back by itself."""
        job = dice.one_of(self.jobs)
        if job is None:
            return
        found = self._newest(job.folder)
        to = found.branch.copy() if found is not None else job.start.copy()
        end = max(job.ends, job.branch.records) + 1
        self.tell(f"{job.driver.order.tag}: fails, goes back to {to.records}, and reads up to {end}")
        job.driver.do("fail", end)
        self._restore(to, job.targets, uncertain=False)
        job.branch = to
        self._read(job, end)
        self._sync()

    def act_savepoint(self, dice: Chooser) -> None:
        job = dice.one_of(self.jobs)
        if job is None:
            return
        if dice.chance(2):
            self._step(job, 1 + dice.number(3))
        stops, canonical, trap = dice.chance(2), dice.chance(2), self._trap(dice, one_in=4)
        before = self._on_disk()
        self.tell(f"{job.driver.order.tag}: {'stops with a ' if stops else ''}savepoint{self._say_trap(trap)}")
        name = "stop" if stops else "savepoint"
        try:
            pointer = job.driver.do(name, self.savepoints, canonical, trap=trap[0] if trap else None)
        except Died:
            if stops:
                self._hand_out(job)
                self._died(job, before, savepoint=True)
            else:
                self.jobs.remove(job)
                job.driver.kill()
                for path in self._on_disk() - before:
                    self.snapshots[path] = job.snapshot(True)
                    self.tell(f"  died; {self._say(path)} appeared")
                self._sync()
            return
        if stops:
            self._hand_out(job)
        self.snapshots[pointer] = job.snapshot(True)
        self.tell(f"  {self._say(pointer)}")
        if stops:
            self._publish(job)
            self.jobs.remove(job)
        self._sync()

    def act_finish(self, dice: Chooser) -> None:
        job = dice.one_of(self.jobs)
        if job is None:
            return
        trap = self._trap(dice, one_in=4)
        before = self._on_disk()
        self.tell(f"{job.driver.order.tag}: finishes{self._say_trap(trap)}")
        try:
            job.driver.do("finish", trap=trap[0] if trap else None)
        except Died:
            self._hand_out(job, final=True)
            self._died(job, before)
            return
        self._hand_out(job, final=True)
        self._publish(job)
        self.jobs.remove(job)
        self._sync()

    def act_cancel(self, dice: Chooser) -> None:
        job = dice.one_of(self.jobs)
        if job is not None:
            self.tell(f"{job.driver.order.tag}: cancelled")
            job.driver.do("cancel")
            self.jobs.remove(job)

    def act_kill(self, dice: Chooser) -> None:
        job = dice.one_of(self.jobs)
        if job is not None:
            if dice.chance(2):
                self._step(job, 1 + dice.number(3))
            self.tell(f"{job.driver.order.tag}: killed")
            job.driver.kill()
            self.jobs.remove(job)

    # -- what happens to folders

    def act_damage(self, dice: Chooser) -> None:
        """The newest checkpoint of a job that has others."""
        folders = [folder for folder in self._folders() if len(self._good(folder)) > 1]
        folder = dice.one_of(folders)
        if folder is not None:
            pointer = self._good(folder)[0]
            self.tell(f"{self._say(pointer)} is damaged")
            path = Path(pointer, METADATA)
            path.write_bytes(path.read_bytes()[:-9])
            self.snapshots[pointer].damaged = True

    def act_remove(self, dice: Chooser) -> None:
        """A job's folder, or a whole directory, of jobs that are dead."""
        busy = [job.folder for job in self.jobs]
        free = [path for path in self._folders() + self.directories if not any(b.startswith(path) for b in busy)]
        path = dice.one_of([path for path in free if os.path.isdir(path) and os.listdir(path)])
        if path is not None:
            self.tell(f"rm -r {self._say(path)}")
            shutil.rmtree(path)
            os.makedirs(path) if path in self.directories else None
            self._sync()

    def act_copy(self, dice: Chooser) -> None:
        """A whole directory, elsewhere."""
        if len(self.directories) > 3:
            return
        path = dice.one_of([path for path in self.directories if os.listdir(path)])
        if path is not None:
            copy = str(self.root / f"copy{next(self._copies)}")
            self.tell(f"cp -r {self._say(path)} {self._say(copy)}")
            shutil.copytree(path, copy, ignore=shutil.ignore_patterns(".*"))
            self.directories.append(copy)
            for pointer, snapshot in list(self.snapshots.items()):
                if pointer.startswith(f"{path}/"):
                    self.snapshots[copy + pointer[len(path) :]] = replace(snapshot)

    # -- what lies around

    def _folders(self) -> list[str]:
        return sorted({str(path) for each in self.directories for path in Path(each).iterdir() if path.is_dir()})

    def _good(self, folder: str) -> list[str]:
        """The checkpoints in a folder that can be read, newest first."""
        found = [path for path, each in self.snapshots.items() if str(Path(path).parent) == folder and not each.damaged]
        return sorted((path for path in found if not self.snapshots[path].is_savepoint), key=_number, reverse=True)

    def _newest(self, folder: str) -> Snapshot | None:
        found = self._good(folder)
        return self.snapshots[found[0]] if found else None

    def _resumable(self) -> list[str]:
        return [folder for folder in self._folders() if self._good(folder)]

    def _pointers(self, savepoints: bool) -> list[str]:
        return sorted(
            path for path, each in self.snapshots.items() if each.is_savepoint == savepoints and not each.damaged
        )

    def _on_disk(self) -> set[str]:
        """All checkpoints that count, and the savepoints."""
        found = {listed.pointer for folder in self._folders() for listed in list_job(folder)}
        return found | {str(path.parent) for path in Path(self.savepoints).glob(f"savepoint-*/{METADATA}")}

    def _sync(self) -> None:
        """Older checkpoints go when newer ones complete, and all at the end: that is not this model's subject. But
        nothing may appear that it does not know."""
        there = self._on_disk()
        for path in [path for path in self.snapshots if path not in there]:
            del self.snapshots[path]
        unknown = there - set(self.snapshots)
        assert not unknown, f"{sorted(unknown)} appeared"


def _short(rows: Counter[str]) -> str:
    return ", ".join(sorted(rows.elements())[:8])


def _number(pointer: str) -> int:
    return int(pointer.rsplit("-", 1)[1])


class Chooser:
    """Chooses by the numbers of an act; the same numbers choose the same from the same."""

    def __init__(self, dice: tuple[int, ...]) -> None:
        self._dice: Iterator[int] = itertools.chain(dice, itertools.repeat(0))

    def number(self, below: int) -> int:
        return next(self._dice) % below

    def chance(self, one_in: int) -> bool:
        return self.number(one_in) == one_in - 1

    def one_of(self, options: list[Any]) -> Any:
        number = next(self._dice)
        return options[number % len(options)] if options else None


# -- histories

_WEIGHTS = {
    "start": 8,
    "work": 10,
    "fail": 2,
    "savepoint": 2,
    "finish": 2,
    "cancel": 1,
    "kill": 3,
    "damage": 2,
    "remove": 1,
    "copy": 1,
}


def history(seed: int, length: int = 16) -> list[Act]:
    """Any acts."""
    dice = random.Random(seed)
    names = dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=length)
    return [Act(name, tuple(dice.randrange(1 << 16) for _ in range(24))) for name in ["start", "work", *names]]


def perform(acts: list[Act], root: Path, system: System = FILES) -> tuple[World, AssertionError | None]:
    """What comes of a history: the first thing that is wrong, if anything is."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    world = World(root, system)
    try:
        for act in acts:
            world.done += 1
            world.perform(act)
    except AssertionError as wrong:
        return world, wrong
    finally:
        world.close()
    return world, None


def shortened(
    acts: list[Act], root: Path, system: System = FILES, fails: Callable[[AssertionError], bool] = bool
) -> list[Act]:
    """The history with as few acts as are needed to go wrong."""
    acts = acts[: perform(acts, root, system)[0].done]
    size = max(1, len(acts) // 2)
    while size:
        at = 0
        while at < len(acts):
            fewer = acts[:at] + acts[at + size :]
            wrong = perform(fewer, root, system)[1]
            if wrong is not None and fails(wrong):
                acts = fewer
            else:
                at += size
        size //= 2
    return acts
