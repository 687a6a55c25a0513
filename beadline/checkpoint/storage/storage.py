"""The place of one job: where its checkpoints and its state are, and the right to write there.

There are two kinds. Files below a directory (:mod:`~beadline.checkpoint.storage.file_system`) outlive the driver, so
that another driver can take over the job: a lease says whose it is. The driver's memory
(:mod:`~beadline.checkpoint.storage.memory`) is gone with the driver, so that nobody else can have the job. Who uses a
place need not know which kind it is.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from beadline.checkpoint.cleanup.removal import remove_claimed, remove_metadata
from beadline.checkpoint.contents.snapshot import Snapshot, explained
from beadline.checkpoint.directory.jobs import Trace
from beadline.checkpoint.directory.lookup import Listed, folder_of
from beadline.checkpoint.ownership.lease import Fenced
from beadline.checkpoint.ownership.lineage import Lineage
from beadline.checkpoint.storage.publishing import (
    DEFAULT_INLINE_THRESHOLD,
    Fill,
    Stored,
    publish_savepoint,
    savepoint_folder,
)
from beadline.graph.program import Program
from beadline.state.segments.files import PRIVATE, local_path


class JobStorage(ABC):
    """One driver's hold on the place of one job.

    1. :meth:`acquire`, then look what is there, then :meth:`begin`
    2. :meth:`state_folder` for each execution, :meth:`write` for each checkpoint
    3. :meth:`leave_trace` if the job has finished, before anything is removed
    4. :meth:`release`, and :meth:`remove` if nobody can resume the job

    Segments up to ``inline_threshold`` stay in ``_metadata``. If it survives the driver, a new one can resume the job.
    """

    survives_driver: bool

    def __init__(
        self,
        job_id: str,
        inline_threshold: int = DEFAULT_INLINE_THRESHOLD,
        folder_mode: int | None = PRIVATE,
    ) -> None:
        self.job_id = job_id
        self._inline_threshold = inline_threshold
        self._folder_mode = folder_mode
        self._lineage = Lineage.alone()

    # -- whose job it is

    @property
    def epoch(self) -> int:
        """Which driver of the job this is: counts from 1. 0 if there can be no other one."""
        return 0

    @property
    def lineage(self) -> Lineage:
        """Which drivers the job has had. Known when it is acquired."""
        return self._lineage

    def note_outputs(self, outputs: Mapping[str, Any]) -> None:
        """Note for later drivers where this one's sinks write, by uid. Call it before anything is staged."""

    def acquire(self, is_new: bool = False) -> None:
        """Take the job, and fence the driver that had it. If it is new, first remove what is left of a finished one."""

    def check(self) -> None:
        """Look whether this driver still has the job: raises Fenced, or OSError if that is unknown now."""

    def check_if_reachable(self) -> None:
        """The same, but the job goes on if that is unknown now."""
        with contextlib.suppress(OSError):
            self.check()

    def _is_fenced(self) -> bool:
        """Whether nothing may be removed: what a fenced driver thinks nobody needs, the new owner may need."""
        try:
            self.check()
        except (Fenced, OSError):
            return True
        return False

    def show_life(self) -> None:
        """From now on others can see that the driver is alive."""

    def let_go(self) -> None:
        """The driver has ended, and nothing is said about how."""

    @abstractmethod
    def release(self) -> None:
        """The driver has ended in good order. Remove what only it needed."""

    # -- the job's beginning and its end

    def begin(self, job_name: str, program: Program) -> None:
        """From now on this is the run of the program that counts, and it has not finished."""

    def refuse_if_stopped(self) -> None:
        """Raise if the driver before this one has stopped the job, with a savepoint, before it was fenced."""

    def leave_trace(self, trace: Trace) -> None:
        """The job has finished: note it for drivers that would resume it."""

    def note_stop(self, trace: Trace) -> None:
        """The job is about to publish what it stops with. If this comes back, nobody resumes it from an older
        checkpoint."""

    def forget_stop(self) -> None:
        """The job goes on after all."""

    @abstractmethod
    def remove(self, comes_again: bool = False) -> bool:
        """Remove the place of a job that kept no checkpoint; False if it is not empty, or another driver has it."""

    # -- what people want to know of it later

    def keep_history(self, data: bytes) -> None:
        """Keep what has happened to the job, in place of what was kept before."""

    def history(self) -> bytes | None:
        """What was kept last, by whichever driver."""
        return None

    def keep_page(self, name: str, data: bytes) -> None:
        """Keep a page of the job's chronicle, in place of the one of that name."""

    def pages(self) -> list[str]:
        """The names of the pages that are kept."""
        return []

    def page(self, name: str) -> bytes | None:
        """What a page says, None if there is none of that name."""
        return None

    def drop_page(self, name: str) -> None:
        """A page is not needed any more."""

    # -- state

    @abstractmethod
    def state_folder(self, attempt: int, one_machine: bool) -> str:
        """Where the segments of an execution go: a folder that is there, and that all executors reach."""

    @abstractmethod
    def owned_folder(self) -> str:
        """Files below it may be deleted when nobody needs them. Empty if there is none."""

    @abstractmethod
    def output_folder(self, one_machine: bool) -> str:
        """Where output is staged that goes to systems outside: a folder that all executors reach."""

    # -- checkpoints and savepoints

    @abstractmethod
    def write(self, snapshot: Snapshot, copy_foreign: bool = False) -> Stored:
        """Make a checkpoint complete, or raise and leave nothing that looks complete. ``copy_foreign``: copy segments
        of other folders to this job's, so that the snapshot it was restored from can go."""

    def write_savepoint(self, snapshot: Snapshot, directory: str, fill: Fill | None = None) -> Stored:
        """Write a savepoint to a folder of its own in ``directory``, which holds all it needs, and can be moved."""
        folder = savepoint_folder(directory, snapshot.job_id)
        snapshot = replace(snapshot, epoch=self.epoch, lineage=self.lineage.name)
        return publish_savepoint(snapshot, folder, fill, self._inline_threshold, self._folder_mode)

    @abstractmethod
    def read(self, pointer: str) -> Snapshot:
        """The snapshot that a pointer leads to."""

    @abstractmethod
    def completed(self) -> list[Listed]:
        """The completed checkpoints of the job that count, newest first."""

    @abstractmethod
    def highest_number(self) -> int:
        """The highest number that any checkpoint of the job has used, finished or not. New ones begin above it."""

    # -- removing

    @abstractmethod
    def discard(self, pointer: str) -> None:
        """Remove a checkpoint. Its shared files are the registry's affair."""

    def withdraw(self, pointer: str) -> None:
        """Remove a checkpoint that is complete, though no newer one is: nobody may go on from it. If another driver
        takes the job meanwhile, and has found it, it stays."""
        self.discard(pointer)

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Remove files that the registry gave out, or what :meth:`orphans` found."""

    @abstractmethod
    def orphans(self, referenced: Iterable[str] = ()) -> list[str]:
        """What crashed or fenced drivers left, and nobody needs; ``referenced`` files are needed beyond those of the
        completed checkpoints. Call it with the job acquired and no step under way: segments of a step that is not
        sealed are needed by nobody yet. While a checkpoint is being written nothing is an orphan."""

    def discard_claimed(self, pointer: str) -> None:
        """A snapshot that the job has claimed is subsumed. Its files are the registry's affair."""
        if not self._is_fenced():
            with explained(f"can't remove {pointer}"):
                remove_metadata(folder_of(pointer))

    def delete_claimed(self, paths: Iterable[str]) -> None:
        """Remove files of a claimed snapshot that nobody needs any more, and its folders when they are empty."""
        if not self._is_fenced():
            for path in paths:
                with explained(f"can't remove {path}"):
                    remove_claimed(path)


class SharedFiles:
    """Who needs which shared file: completed checkpoints share segments. A file may be deleted when its last holder
    releases it, and only if it is the job's own, in ``folders``: files of savepoints and of other jobs' folders are
    counted like the rest and never given out for deletion, unless they were claimed.

    A holder is a checkpoint's number. Register a checkpoint when its snapshot is taken, before it is written: until it
    completes or fails its files are needed too.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = tuple(_folder(folder) for folder in folders)
        self._holders: dict[int, frozenset[str]] = {}
        self._counts: Counter[str] = Counter()
        self._claimed: set[str] = set()

    def claim(self, files: Iterable[str]) -> None:
        """Own these files too, wherever they are: those of a snapshot that was restored in claim mode."""
        self._claimed.update(path for path in files if ".." not in path.split("/"))

    def register(self, holder: int, files: Iterable[str]) -> frozenset[str]:
        """A holder needs exactly these files from now on. Gives the files that nobody needs any more."""
        before, after = self._holders.get(holder, frozenset()), frozenset(files)
        self._holders[holder] = after
        self._counts.update(after - before)
        return self._let_go(before - after)

    def share(self, holder: int, files: Iterable[str]) -> None:
        """A holder may need these files too."""
        self.register(holder, self._holders.get(holder, frozenset()).union(files))

    def release(self, holder: int) -> frozenset[str]:
        """A holder needs nothing any more. Gives the files that nobody else needs; an unknown holder had none."""
        return self._let_go(self._holders.pop(holder, frozenset()))

    def _let_go(self, files: Iterable[str]) -> frozenset[str]:
        freed = set()
        for path in files:
            self._counts[path] -= 1
            if not self._counts[path]:
                del self._counts[path]
                freed.add(path)
        return frozenset(path for path in freed if self.owns(path))

    def owns(self, path: str) -> bool:
        """Whether this job may delete a file."""
        if path in self._claimed:
            return True
        place = local_path(path) or path
        return ".." not in place.split("/") and any(place.startswith(folder) for folder in self._folders)

    def files(self) -> frozenset[str]:
        """All files that somebody needs."""
        return frozenset(self._counts)


def _folder(folder: str) -> str:
    return (local_path(folder) or folder.partition("?")[0]).rstrip("/") + "/"
