"""Checkpoints of a running job: what the coordinator has decided is done here, and what threads report is taken in.

All that runs in the job master's thread, called by :class:`beadline.master.running.Running`. Making output ready,
writing and publishing take longer: threads do it, on data that does not change, and report to the job master's inbox.
What each checkpoint has come to is in its :class:`~beadline.master.snapshots.records.Record`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from beadline.checkpoint.cleanup.disposal import dispose_savepoint
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.coordinator.actions import (
    Action,
    CheckpointKind,
    Complete,
    Discard,
    FailJob,
    FailureReason,
    NotifyAborted,
    Take,
    Triggered,
)
from beadline.checkpoint.coordinator.coordinator import CheckpointCoordinator
from beadline.checkpoint.ends import End
from beadline.checkpoint.ownership.lease import Fenced
from beadline.checkpoint.storage.publishing import Stored
from beadline.checkpoint.storage.storage import SharedFiles
from beadline.common.job_status import JobStatus
from beadline.errors import BeadlineError, EngineLostError, JobExecutionError
from beadline.master.events import Event, NotWritten, Prepared, Published, Request, StepPublished, Written
from beadline.master.reporting.telling import first_line
from beadline.master.snapshots.home import Home
from beadline.master.snapshots.records import Phase, Record, Records
from beadline.master.snapshots.sinks import Sinks
from beadline.master.snapshots.step_output import StepOutput
from beadline.master.snapshots.waiting import Grace, Patience, until_it_goes_on
from beadline.master.snapshots.writing import CanonicalSavepoints, Exporter, Writing
from beadline.state.disks import may_have_lost

_LOG = logging.getLogger("beadline")


class Checkpoints:
    """The checkpoints of one job.

    :ivar step_output: what is published when its step is sealed
    :ivar stopped_with: the kind of savepoint that is complete, and ends the job
    :ivar stop_point: number and place of a savepoint that has published, until a newer checkpoint completes: systems
        outside take nothing back, so a job that fails when it is about to stop must not go back further
    """

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        home: Home,
        records: Records,
        sinks: Sinks,
        savepoints: CanonicalSavepoints,
        clock: Callable[[], int],
        post: Callable[[Event], None],
    ) -> None:
        self.coordinator = coordinator
        owned = home.storage.owned_folder()
        self.registry = SharedFiles([owned] if owned else [])
        self.registry.claim(home.claimed_files)
        self.savepoints = savepoints
        self.stopped_with: CheckpointKind | None = None
        self.stop_point: tuple[int, str] | None = None
        self._home, self._storage = home, home.storage
        # Up to here checkpoints are of earlier drivers. One that can't be read stays as it is: somebody may repair it.
        self._earlier = home.storage.highest_number()
        self._records = records
        self._sinks = sinks
        self._clock = clock
        self._writing = Writing(coordinator.settings, home.storage, sinks, savepoints, post)
        self.step_output = StepOutput(sinks, self._writing)
        # Taken while the step's output was being published: whether they hold it is not known before that has ended.
        self._held_back: list[tuple[Record, Take, Snapshot, Exporter]] = []
        self._over = False
        # Whether the job has gone on since a stop that failed, and the note of that is still in its folder.
        self._outdated_note = False
        self._ending: tuple[Request, str] | None = None
        self._completed_steps: list[int] = []
        self._aborted_steps: list[int] = []
        for stored in home.completed:  # of an earlier run and now this job's own, or the snapshot that it has claimed
            id, claimed = stored.snapshot.checkpoint_id, stored.pointer == home.claimed
            records.add(Record(id, CheckpointKind.CHECKPOINT, Phase.COMPLETE, stored=stored, claimed=claimed))
            self.registry.register(id, stored.snapshot.files())

    def __repr__(self) -> str:
        return f"<Checkpoints {self.coordinator!r} in {self._storage!r}>"

    # -- what happens to the job

    def job_failed(self) -> list[Action]:
        self.stopped_with = None
        self.answer_the_end("the job failed before it ended, and may go on")
        self._completed_steps.clear()
        self._aborted_steps.clear()
        self._held_back.clear()
        self._writing.forget_publications()
        return self.coordinator.job_failed(self._clock())

    # -- what holds now

    @property
    def may_end(self) -> bool:
        """Whether the last checkpoint is complete, and all output visible."""
        return self.coordinator.may_end and not self.is_publishing

    @property
    def is_publishing(self) -> bool:
        """Whether output is on its way out, and the job has not heard yet how that ended."""
        publishing = (record.phase is Phase.PUBLISHING for record in self._records)
        return self.step_output.is_under_way or any(publishing)

    @property
    def is_quiet(self) -> bool:
        """Whether no thread is at work that the job has to wait for before it goes back."""
        if self._writing.is_publishing:
            return False
        work = [record.work for record in self._records if record.work is not None]
        return not len(self._sinks) or all(each.done() for each in work)

    @property
    def unpublished(self) -> list[str]:
        """What could not be published, or is not yet, for people."""
        return self._writing.unpublished

    def patience(self) -> Patience:
        """Says what is under way, while the job waits until it is quiet."""
        return until_it_goes_on(self._writing.what)

    @property
    def pointers(self) -> dict[int, str]:
        """Where the retained checkpoints are, by number."""
        known = {record.id: record.stored for record in self._records if record.stored is not None}
        return {each.id: known[each.id].pointer for each in self.coordinator.completed if each.id in known}

    @property
    def newest(self) -> str | None:
        """Where the newest checkpoint to go on from is, even if the job has not heard of it yet; or the savepoint that
        it was to stop with."""
        found = self.pointers | ({} if self.stop_point is None else dict([self.stop_point]))
        for record in self._records:
            if not record.kind.is_savepoint and (stored := record.unheard) is not None:
                found[record.id] = stored.pointer
        return found[max(found)] if found else None

    def news(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What functions have not heard of yet: checkpoints that completed, and that were given up, by their steps."""
        news = tuple(self._completed_steps), tuple(self._aborted_steps)
        self._completed_steps.clear()
        self._aborted_steps.clear()
        return news

    # -- what the threads report

    def prepared(self, event: Prepared) -> None:
        """The sinks' output of a checkpoint is ready: write it, unless it was given up meanwhile."""
        record = self._records[event.id]
        record.work = None
        if record.phase is Phase.GIVEN_UP:
            self._forget(record)
        else:
            record.prepared = event.snapshot
            self._writing.write(record, event.snapshot)

    def written(self, event: Written) -> list[Action]:
        """It is durable. If the job stops with it, that is noted before anybody hears of it: what it holds is about to
        be visible. If that can't be noted, the job does not stop."""
        record = self._records.get(event.id)
        if record is not None:
            record.work, record.prepared, record.stored = None, None, event.stored
            self.registry.register(event.id, event.stored.snapshot.files())
        size, full, now = event.stored.written, event.stored.snapshot.size, self._clock()
        request = record.request if record is not None and event.savepoint else None
        form = request.format.name if request is not None else None
        pointer = event.stored.pointer
        if record is not None and record.stops and self.coordinator.is_pending(event.id):
            try:
                self._home.note_stop(event.stored)
            except SnapshotError as error:
                forgotten = self._home.forget_stop()
                undone = [Discard((event.id,))] if forgotten else []  # else somebody may be sent there
                return undone + self.not_written(NotWritten(event.id, error, event.savepoint))
        return self.coordinator.written(event.id, now, size, full, pointer, operators=event.operators, format=form)

    def not_written(self, event: NotWritten) -> list[Action]:
        if isinstance(event.error, Fenced):
            raise event.error
        record = self._records.get(event.id)
        if record is not None:
            record.work = record.prepared = None
            if record.phase is Phase.GIVEN_UP:
                self._forget(record)
        if self.coordinator.is_pending(event.id):
            _LOG.warning("checkpoint %d failed: %s", event.id, first_line(event.error))
        # Steps do not wait for savepoints: a failed one says nothing about the job.
        reason = (
            FailureReason.IO_EXCEPTION
            if isinstance(event.error, SnapshotError | OSError) or event.savepoint
            else FailureReason.CHECKPOINT_ASYNC_EXCEPTION
        )
        actions = self.coordinator.failed(event.id, reason, self._clock(), first_line(event.error))
        if may_have_lost(event.error):  # whatever else is tolerated: no later checkpoint may name that file
            actions.append(FailJob(f"checkpoint {event.id} could not be made durable: {first_line(event.error)}"))
        return actions

    def published(self, event: Published) -> None:
        record = self._records.get(event.id)
        if record is None or record.phase is not Phase.PUBLISHING:
            return  # of an execution that failed; restoring has published it again
        if event.error is None:
            self._writing.is_visible(record)
        self._no_more_publishing(record)
        if isinstance(event.error, EngineLostError):
            raise event.error
        if event.error is not None:
            raise JobExecutionError(
                f"the output of checkpoint {event.id} could not be published: {first_line(event.error)}"
            ) from event.error
        self._sinks.published(event.id)

    def step_published(self, event: StepPublished) -> None:
        """Checkpoints that were taken meanwhile can be written."""
        if event.error is None:
            self._writing.is_visible(event.number)
        self.step_output.published(event)
        if not self.step_output.is_under_way:
            held_back, self._held_back = self._held_back, []
            for record, take, snapshot, exporter in held_back:
                if record.phase is Phase.TRIGGERED:
                    self._writing.begin(record, take, snapshot, exporter)

    # -- the effects of actions

    def triggered(self, action: Triggered) -> None:
        self._records.add(Record(action.id, action.kind, request=action.request))

    def taken(self, take: Take, snapshot: Snapshot, exporter: Exporter) -> None:
        """Make a snapshot durable, in threads; ``exporter`` writes a savepoint's state in workers. If output of its
        step is on its way out, it waits: what is visible must not come from it again, and what is not must."""
        record = self._records[take.id]
        record.taken = snapshot
        self.registry.register(take.id, snapshot.files())
        if self.step_output.is_under_way:
            self._held_back.append((record, take, snapshot, exporter))
        else:
            self._writing.begin(record, take, snapshot, exporter)

    def complete(self, action: Complete) -> None:
        record = self._records[action.id]
        assert record.stored is not None
        record.phase = Phase.COMPLETE
        request, record.request = record.request, None
        if action.kind.ends_job:
            self.stopped_with = action.kind
            if request is not None:
                self._ending = (request, record.stored.pointer)
        elif request is not None:
            request.give(record.stored.pointer)
        if action.kind.commits:
            if record.stops:
                self._outdated_note = False  # a second stop has noted itself
            elif self.stop_point is not None or self._outdated_note:
                self._outdated_note = not self._home.forget_stop()
            self.stop_point = (action.id, record.stored.pointer) if record.stops else None
        else:
            record.taken = None
        if action.kind.is_savepoint:
            # It holds copies of all it needs, and belongs to the user.
            self.registry.release(action.id)
            record.stored = None
            self._forget_if_over(record)

    def completed(self, id: int) -> Snapshot:
        """A checkpoint has completed, and everybody hears of it: gives the step that it holds."""
        record = self._records[id]
        snapshot, record.taken = record.taken, None
        assert snapshot is not None
        self._completed_steps.append(snapshot.step)
        return snapshot

    def publish(self, id: int) -> None:
        """Make the output of a complete checkpoint visible."""
        record = self._records[id]
        ready = self._sinks.completed(id)
        if ready:
            self._writing.publish(record, ready)
        else:
            self._forget_if_over(record)

    def aborted(self, action: NotifyAborted) -> None:
        record = self._records[action.id]
        if record.taken is not None:
            self._aborted_steps.append(record.taken.step)
        if record.kind.is_savepoint:
            self.savepoints.cancel(action.id)
            self._sinks.promises.withdraw(action.id)
        if record.request is not None:
            text = f"the {record.request.kind.value} failed: {action.reason.value} {action.message}"
            record.request.fail(BeadlineError(text.strip()))
        if action.reason.counts:
            _LOG.warning("checkpoint %d was given up: %s %s", action.id, action.reason.value, action.message)
        record.phase, record.taken, record.request = Phase.GIVEN_UP, None, None
        if record.work is None:
            self._forget(record)

    def discard(self, id: int) -> frozenset[str]:
        """Remove a checkpoint; gives the files that no other needs. What can't be removed now is an orphan later."""
        record = self._records.get(id)
        if record is None or (record.claimed and self._over):
            return frozenset()  # no newer one has replaced what was claimed: it stays for the next start
        stored, record.stored = record.stored, None
        if stored is not None:
            if record.phase is Phase.GIVEN_UP:
                self._leave_to_others(stored)
            discard: Callable[[str], object] = self._storage.discard
            if record.claimed:
                discard = self._storage.discard_claimed
            elif stored.snapshot.kind is SnapshotKind.SAVEPOINT:
                discard = dispose_savepoint  # it was written too late; its caller was told that it failed
                self._sinks.promises.withdraw(id)
            elif record.phase is Phase.GIVEN_UP:
                discard = self._storage.withdraw
            with contextlib.suppress(SnapshotError):
                discard(stored.pointer)
        freed = self.registry.release(id)
        self._forget_if_over(record)
        self._sinks.tidy()
        return freed

    def _leave_to_others(self, stored: Stored) -> None:
        """Those that are being written may have found copies of segments that a checkpoint made, and name them now."""
        for other in self._records:
            if other.phase is Phase.WRITING and not other.kind.is_savepoint:
                self.registry.share(other.id, stored.snapshot.files())

    def has(self, id: int) -> bool:
        """Whether it is complete, and can be gone back to."""
        record = self._records.get(id)
        return record is not None and record.stored is not None

    # -- going back

    def leave_behind(self, id: int) -> frozenset[str]:
        """The job goes back to a checkpoint and takes back later output: nobody may go on from newer ones, also not
        from those that were given up and are still written.

        1. wait for those that are being written
        2. remove all newer ones; one that stays would name output that is taken back. Some may be there though writing
           them failed: the answer of an object store may be what was lost
        3. look at the lease: a driver that takes over from now on finds none of them

        :returns: the files that no checkpoint needs any more
        """
        self._writing.wait_for([record.work for record in self._records if record.work is not None])
        for record in self._records:
            if record.phase is Phase.GIVEN_UP:
                self._sinks.promises.withdraw(record.id)  # its thread may have made some since
        freed: frozenset[str] = frozenset()
        for record in self._records:
            if record.id > id:
                unheard = None if record.kind.is_savepoint else record.unheard
                record.stored = record.stored or unheard
        for record in self._records:
            if record.id > id and record.stored is not None:
                if record.stored.snapshot.kind is SnapshotKind.CHECKPOINT and not record.claimed:
                    self._storage.withdraw(record.stored.pointer)
                freed |= self.discard(record.id)
        for listed in self._storage.completed():
            if listed.checkpoint_id > max(id, self._earlier):
                self._storage.withdraw(listed.pointer)
        self._storage.check()
        return freed

    def depend_on_savepoint(self) -> None:
        """The job goes on from a savepoint that is the user's: the next checkpoint copies what it needs of it."""
        self._writing.copy_foreign = True

    def quiet(self) -> None:
        """Wait until nothing is being published."""
        self._writing.wait_for_publishing()
        self._writing.forget_publications()
        for record in self._records:
            if record.phase is Phase.PUBLISHING:
                self._no_more_publishing(record)

    def _no_more_publishing(self, record: Record) -> None:
        record.phase = Phase.COMPLETE
        self._forget_if_over(record)

    def _forget_if_over(self, record: Record) -> None:
        """Forget a record that is of no more use."""
        over = record.phase is Phase.COMPLETE and record.taken is None
        if record.stored is None and record.work is None and (over or record.phase is Phase.GIVEN_UP):
            self._records.remove(record)

    def _forget(self, record: Record) -> None:
        """Forget a record that was given up."""
        self._sinks.promises.withdraw(record.id)
        self.registry.release(record.id)
        self._records.remove(record)

    # -- the end

    def await_output(self, grace: Grace) -> list[str]:
        """The job is over: wait until nothing is being published, or the grace is over. Gives what could not be, or is
        not yet."""
        self._writing.wait_for_publishing(grace)
        return self._writing.unpublished

    def close(self, grace: Grace, patience: float | None = None) -> bool:
        """No thread works for the job any more, unless the grace is over: then nobody waits for them, and what they do
        is as good as done by a driver that was killed. Those that talk to the engine get ``patience`` seconds. Gives
        whether all are done."""
        for record in self._records:
            if record.kind.is_savepoint and record.work is not None:
                self.savepoints.cancel(record.id)  # what is not complete by now is not needed any more
        done = self._writing.end(patience, grace)
        if not done:
            self._sinks.give_up()
        self._over = True
        return done

    def stop(self, end: End) -> list[Action]:
        """What follows for the checkpoints, after :meth:`close`."""
        if self._outdated_note and end.status is not JobStatus.FINISHED:
            self._outdated_note = not self._home.forget_stop()
        return self.coordinator.stop(self._clock(), self._end_for_checkpoints(end))

    def _end_for_checkpoints(self, end: End) -> End:
        """A note that the job was stopped counts again when there is no newer checkpoint: if it can't be removed, that
        has to stay."""
        outdated = self._outdated_note and end.status is not JobStatus.FINISHED
        return End.SUSPENDED if outdated and self.coordinator.completed else end

    def is_resumable(self, end: End) -> bool:
        """Whether a checkpoint is left to resume from, after :meth:`close`; removes what nobody heard of and is not to
        stay."""
        keeps = self.coordinator.settings.retention.keeps(self._end_for_checkpoints(end))
        left = bool(self.coordinator.completed)
        for record in self._records:
            stored = record.unheard
            if stored is None:
                continue
            if record.kind.is_savepoint:  # its caller has been told that it failed
                with contextlib.suppress(SnapshotError):
                    dispose_savepoint(stored.pointer)
            elif keeps:
                left = True
            else:
                with contextlib.suppress(SnapshotError):
                    self._storage.discard(stored.pointer)
                record.work = None
        return keeps and left and self._storage.survives_driver

    def abandon(self) -> list[Action]:
        """The checkpoints are not this run's to delete: answer those who wait, and touch nothing."""
        self._writing.abandon()
        return self.coordinator.job_failed(self._clock())

    def answer_the_end(self, problem: str = "") -> None:
        """The caller that asked for a savepoint to end the job with gets its answer when the job has ended."""
        ending, self._ending = self._ending, None
        if ending is None:
            return
        request, pointer = ending
        if problem:
            request.fail(BeadlineError(f"the savepoint was written to {pointer}, but {problem}"))
        else:
            request.give(pointer)
