"""A job's place in files.

A job's folder looks as in Flink::

    <directory>/<job id>/
        shared/<epoch>/…     segments of state, named by content; checkpoints share them
        output/…             what sinks have staged for systems outside
        chk-17/_metadata     a completed checkpoint: what it holds and which segments it needs
        lease-…, fence-…     which driver the job belongs to, see beadline.checkpoint.ownership.lease
        driver-…             how each driver's output is named, see beadline.checkpoint.ownership.lineage
        beat-…               whether that driver is alive, see beadline.checkpoint.ownership.holder
        history              what has happened to the job, for people, see beadline.master.reporting.news
        history-…            its checkpoints and failures, likewise, see beadline.master.reporting.chronicle
        ended                the job has finished, see beadline.checkpoint.directory.jobs: nothing else is left then;
                             or it is about to, and publishes what it was stopped with

A checkpoint completes in this order: everything it needs is durable; then its folder, made under another name, appears
as ``chk-N`` in one rename. A crash at any moment leaves the old checkpoints and at most files that look unfinished.

Segments too large for ``_metadata`` go to ``shared`` and not to ``chk-N``, because the restored job goes on from them:
they must outlive the checkpoint that wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from beadline.checkpoint.cleanup import disposal
from beadline.checkpoint.cleanup.removal import HISTORY, OUTPUT, PAGE, STAGED, orphans_in, remove_job, remove_known
from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind, explained
from beadline.checkpoint.directory.jobs import (
    CheckpointDirectory,
    Job,
    Trace,
    drop_trace,
    read_trace,
    refuse_finished,
    void_trace,
    write_trace,
)
from beadline.checkpoint.directory.lookup import CHECKPOINT, Listed, folder_of, read_snapshot
from beadline.checkpoint.ownership.lease import Lease
from beadline.checkpoint.ownership.lineage import Lineage
from beadline.checkpoint.storage.durable import Bundle, DurableFiles
from beadline.checkpoint.storage.publishing import DEFAULT_INLINE_THRESHOLD, Stored, publish_checkpoint
from beadline.checkpoint.storage.storage import JobStorage
from beadline.graph.program import Program
from beadline.state.segments import files

_USED = re.compile(r"\.?chk-(\d{1,18})(\.[0-9a-f]{8})?")


class FileJobStorage(JobStorage):
    """A job's folder below a directory, and the lease on it. Until it is acquired, nobody looks for other drivers."""

    survives_driver = True

    def __init__(
        self,
        directory: CheckpointDirectory,
        job_id: str,
        inline_threshold: int = DEFAULT_INLINE_THRESHOLD,
        folder_mode: int | None = files.PRIVATE,
    ) -> None:
        super().__init__(job_id, inline_threshold, folder_mode)
        self.folder = directory.job_folder(job_id)
        self._directory = directory
        self._files = DurableFiles()
        self._lease: Lease | None = None
        self._writing: set[object] = set()

    def __repr__(self) -> str:
        return f"<FileJobStorage {self.folder}, epoch {self.epoch}>"

    # -- whose job it is

    @property
    def epoch(self) -> int:
        return self._lease.epoch if self._lease is not None else 0

    def acquire(self, is_new: bool = False) -> None:
        if is_new:
            disposal.make_room(self.folder)
        self.hold(Lease.acquire(self.folder, folder_mode=self._folder_mode))
        self._lineage = Lineage.of_driver(self.folder, self.epoch, is_new)

    def hold(self, lease: Lease) -> None:
        """From now on nothing is written or removed unless this lease is held."""
        self._lease = lease

    def note_outputs(self, outputs: Mapping[str, Any]) -> None:
        if self._lease is not None:
            self._lineage.note(self.folder, outputs)

    def check(self) -> None:
        if self._lease is not None:
            self._lease.check()

    def show_life(self) -> None:
        if self._lease is not None:
            self._lease.hold()

    def let_go(self) -> None:
        if self._lease is not None:
            self._lease.let_go()

    def release(self) -> None:
        if self._lease is not None:
            self._lease.release()

    # -- the job's beginning and its end

    def begin(self, job_name: str, program: Program) -> None:
        disposal.job_begins(self._directory, self.job_id, job_name, program)

    def refuse_if_stopped(self) -> None:
        trace = read_trace(self.folder, before=self.epoch)
        if trace is not None:
            write_trace(self.folder, replace(trace, epoch=self.epoch))  # else this lease would make it void
            refuse_finished(Job.that_finished(self.folder, trace))

    def leave_trace(self, trace: Trace) -> None:
        self.check()
        disposal.leave_trace(self._directory, trace)

    def note_stop(self, trace: Trace) -> None:
        """As a checkpoint is published: first the mark, then the last look. Whoever takes the lease later finds it."""
        self.check()
        write_trace(self.folder, trace)
        if self._lease is not None:
            self._lease.check_after_publishing()

    def forget_stop(self) -> None:
        self.check()
        try:
            drop_trace(self.folder)
        except OSError:
            void_trace(self.folder)

    def remove(self, comes_again: bool = False) -> bool:
        if self._is_fenced():
            return False
        self._files = DurableFiles()  # nothing of what it has made durable stays
        return remove_job(self.folder, comes_again)

    # -- what people want to know of it later

    def keep_history(self, data: bytes) -> None:
        self.check()
        files.write_file(files.join(self.folder, HISTORY), data)

    def history(self) -> bytes | None:
        try:
            return files.read_file(files.join(self.folder, HISTORY))
        except OSError:
            return None

    def keep_page(self, name: str, data: bytes) -> None:
        self.check()
        files.write_file(files.join(self.folder, f"{HISTORY}-{name}"), data)

    def pages(self) -> list[str]:
        try:
            entries = files.entries_of(self.folder)
        except OSError:
            return []
        return [found[1] for entry in entries if (found := PAGE.fullmatch(entry.name)) and not entry.folder]

    def page(self, name: str) -> bytes | None:
        try:
            return files.read_file(files.join(self.folder, f"{HISTORY}-{name}"))
        except OSError:
            return None

    def drop_page(self, name: str) -> None:
        self.check()
        files.delete_file(files.join(self.folder, f"{HISTORY}-{name}"))

    # -- state

    def state_folder(self, attempt: int, one_machine: bool) -> str:
        self.check()  # a folder that is unreachable for a while must not be made again, without the lease
        return self.prepare(self.epoch)

    def owned_folder(self) -> str:
        return self.shared_folder()

    def output_folder(self, one_machine: bool) -> str:
        self.check()
        return files.join(self.folder, OUTPUT)

    def shared_folder(self, epoch: int = 0) -> str:
        """Where the segments go. A driver writes to the folder of its epoch only."""
        shared = files.join(self.folder, metadata.SHARED)
        return files.join(shared, str(epoch)) if epoch else shared

    def prepare(self, epoch: int = 0) -> str:
        """Make the job's folders, and give the one for its segments."""
        folder = self.shared_folder(epoch)
        with explained(f"can't use {self._directory.path} for checkpoints"):
            files.make_folder(files.parent(self.folder))
            files.make_folder(folder, self._folder_mode)
        return folder

    # -- writing

    def write(self, snapshot: Snapshot, copy_foreign: bool = False) -> Stored:
        """Make a checkpoint complete.

        1. look at the lease
        2. make segments durable: sync those that tasks wrote, write those that are inline and large
        3. write ``_metadata`` under another name
        4. look at the lease, then publish by rename (on object stores: by one put)
        5. look at the lease again: only now has the checkpoint completed
        """
        writing = object()
        self._writing.add(writing)
        try:
            return self._write(snapshot, copy_foreign)
        finally:
            self._writing.discard(writing)

    def _write(self, snapshot: Snapshot, copy_foreign: bool) -> Stored:
        epoch = self.epoch or snapshot.epoch
        number = snapshot.checkpoint_id
        folder = files.join(self.folder, f"chk-{number}")
        with explained(f"can't write checkpoint {number} to {folder}"):
            self.check()
            shared = self.prepare(epoch)
            own = self.shared_folder().partition("?")[0] + "/"
            bundle = Bundle(shared, shared, self._inline_threshold)
            moved, written = self._files.bring(snapshot, bundle, lambda path: copy_foreign and not path.startswith(own))
            stored = replace(moved, epoch=epoch, lineage=self.lineage.name, kind=SnapshotKind.CHECKPOINT)
            data = metadata.encode(stored, folder)
            self._publish(folder, data, number)
        if self._lease is not None:
            self._lease.check_after_publishing()
        return Stored(folder, stored, written + len(data))

    def _publish(self, folder: str, data: bytes, number: int) -> None:
        publish_checkpoint(folder, data, number, self.check)
        try:
            files.sync(self.folder)
        except OSError:
            self.discard(folder)
            raise

    # -- reading

    def read(self, pointer: str) -> Snapshot:
        snapshot = read_snapshot(pointer)
        self._files.know(snapshot)
        return snapshot

    def completed(self) -> list[Listed]:
        return self._directory.completed(self.job_id)

    def highest_number(self) -> int:
        matches = (_USED.fullmatch(entry.name) for entry in files.entries_of(self.folder))
        return max((int(match[1]) for match in matches if match), default=0)

    # -- removing

    def discard(self, pointer: str) -> None:
        """Remove a checkpoint or savepoint: first its ``_metadata``, so that it never looks complete by mistake; then
        what else it wrote into its folder; then the folder, if nothing else is in it."""
        folder = folder_of(pointer)
        name = files.base_name(folder)
        if not (CHECKPOINT.fullmatch(name) or files.size_of(files.join(folder, metadata.METADATA)) is not None):
            raise SnapshotError(f"{folder} is neither a checkpoint nor a savepoint, so it is not removed")
        if self._is_fenced():
            return
        with explained(f"can't remove {folder}"):
            remove_known(folder)

    def withdraw(self, pointer: str) -> None:
        """As a checkpoint is published: first the mark, then the last look.

        1. look at the lease
        2. remove ``_metadata``: who takes the lease from now on does not find the checkpoint
        3. look again; if another driver has the job, put it back. That driver may have found it, and publish what it
           holds. If it came too late for that, its fence does not list the checkpoint, which does not count then
        4. remove the rest
        """
        path = files.join(folder_of(pointer), metadata.METADATA)
        if self._is_fenced():
            return
        with explained(f"can't remove {pointer}"):
            data = files.read_file(path) if files.size_of(path) is not None else None
            files.delete_file(path)
            if data is not None and self._is_fenced():
                files.make_folder(files.parent(path))  # the other one may have tidied up
                files.write_file(path, data, durable=True)
                return
        self.discard(pointer)

    def delete(self, paths: Iterable[str]) -> None:
        if self._is_fenced():
            return
        for path in paths:
            self._files.forget(path)
            with explained(f"can't remove {path}"):
                if CHECKPOINT.fullmatch(files.base_name(path)) or STAGED.fullmatch(files.base_name(path)):
                    remove_known(path)
                else:
                    files.delete_file(path)

    def orphans(self, referenced: Iterable[str] = ()) -> list[str]:
        return [] if self._writing else orphans_in(self.folder, referenced, self.epoch)
