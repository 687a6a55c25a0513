"""The output of sinks on its way from a step to the outside."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import xxhash

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.ownership.lineage import Lineage
from beadline.connectors.sink import Former, Held, StagedSink
from beadline.connectors.sink_settings import MAX_STAGED
from beadline.errors import JobExecutionError

if TYPE_CHECKING:
    from beadline.master.definition import Job

_LOG = logging.getLogger("beadline")

# By the sink's uid: {"staged": …, "committables": […]}; of a checkpoint that is not written yet {"staged": …, "due":
# [[number, part], …]}.
SinkData = Mapping[str, Any]


@dataclass(eq=False)
class Output:
    """A part on its way: handed out, pre-committed, released, and visible, which is when it is forgotten here.

    :ivar checkpoint: the first one that holds it
    :ivar committable: what pre-committing it gave
    :ivar released: whether a checkpoint that holds it has completed, so that it may be published
    """

    number: int
    uid: str
    part: Any
    checkpoint: int | None = None
    committable: Any = None
    released: bool = False


def held_of(data: Any) -> Held:
    return Held(data["staged"], [part for _, part in data.get("due", ())], data.get("committables", []))


def with_sink_data(snapshot: Snapshot, data: SinkData) -> Snapshot:
    """The snapshot with other data of the sinks."""
    operators = (
        replace(operator, committables=data[operator.uid]) if operator.uid in data else operator
        for operator in snapshot.operators
    )
    return replace(snapshot, operators=tuple(operators))


def prepare(sink: StagedSink, uid: str, job: Job) -> None:
    """Tell a sink how its output is named, and where it may stage it.

    Two sinks of one job may write to the same place. So may two jobs, also of one id.
    """
    storage, lineage = job.home.storage, job.home.storage.lineage
    folder = storage.output_folder(job.engine.one_machine) if sink.stages_in_job_folder else ""
    sink.settings = job.settings.sinks
    former = former_drivers(lineage, storage.job_id, uid)
    sink.prepare(_run_of(lineage.name, uid), storage.epoch, folder, lineage.driver.name, former)


def former_drivers(lineage: Lineage, job_id: str, uid: str) -> list[Former]:
    """The earlier drivers that had a sink, oldest first. Those that left no records named output by the job's id."""
    nameless, adopted = lineage.driver.nameless, lineage.driver.adopted
    found = [Former(_run_of(job_id, uid), "", epoch, adopted) for epoch in range(1, nameless + 1)]
    for record in lineage.former:
        if uid in record.outputs:
            run, is_own = _run_of(record.lineage, uid), record.lineage == lineage.name
            found.append(Former(run, record.name, record.epoch, is_own, record.outputs[uid]))
    return found


def _run_of(lineage: str, uid: str) -> str:
    return xxhash.xxh3_128_hexdigest(f"{lineage}|{uid}".encode())


class Limit:
    """How much may wait for a checkpoint. It is said once when it is passed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._is_passed = False

    def is_passed(self, waiting: int) -> bool:
        if waiting > self._most and not self._is_passed:
            _LOG.warning(
                "%d MB of output wait for a checkpoint to complete, and %s allows %d: the job waits too",
                waiting >> 20,
                MAX_STAGED,
                self._most >> 20,
            )
        self._is_passed = waiting > self._most
        return self._is_passed


class Turns:
    """Output of a sink that leaves in order is published by one thread at a time: a savepoint publishes what the
    publisher may be publishing, and may not overtake it. Each sink has turns of its own: whoever publishes output of a
    sink takes along all that came before it there, so it need not wait until another sink's system has answered.

    After a publication that failed there is none, of none of its sinks, until the job has gone back to a checkpoint:
    what is newer would be the newest that is visible, and what failed, or was to come after it, would count as visible
    too.
    """

    def __init__(self) -> None:
        self._locks: dict[str, threading.Lock] = {}
        self._broken_off: set[str] = set()

    def __repr__(self) -> str:
        return f"<Turns: {len(self._broken_off)} sinks broken off>"

    @contextlib.contextmanager
    def taken(self, uid: str, recovering: bool, beside: bool = False) -> Iterator[None]:
        """While a sink's output is published.

        :param recovering: whether it is the output of the checkpoint that the job goes back to
        :param beside: whether nothing is broken off if it fails
        """
        with self._locks.setdefault(uid, threading.Lock()):
            if uid in self._broken_off and not recovering:
                raise JobExecutionError("earlier output could not be published, and this must not overtake it")
            try:
                yield
            except BaseException:
                if not beside:
                    self._broken_off.add(uid)  # before the next one has its turn
                raise

    @contextlib.contextmanager
    def together(self, uids: Iterable[str]) -> Iterator[None]:
        """While output of these sinks is published, one after the other: if one fails, the others' turn never came."""
        try:
            yield
        except BaseException:
            self._broken_off.update(uids)
            raise

    def break_off(self, uids: Iterable[str]) -> None:
        """Nothing that leaves in order is published any more."""
        self._broken_off.update(uids)

    def begin_again(self) -> None:
        """The job has gone back, and all that its checkpoint holds is visible."""
        self._broken_off.clear()


class Promises:
    """What savepoints name, until it is visible: whoever starts from there needs it, even if this job fails before it
    has published it, and goes on from an earlier checkpoint."""

    def __init__(self) -> None:
        self._owed: dict[int, list[Output]] = {}

    def __repr__(self) -> str:
        return f"<Promises of savepoints {sorted(self._owed)}>"

    def make(self, savepoint: int, outputs: list[Output]) -> None:
        if outputs:
            self._owed[savepoint] = outputs

    def withdraw(self, savepoint: int) -> None:
        """A savepoint was given up: nobody will start from it."""
        self._owed.pop(savepoint, None)

    def keep(self, output: Output) -> None:
        """What is visible is not owed to anybody."""
        for savepoint, outputs in list(self._owed.items()):
            left = [other for other in outputs if other is not output]
            if left:
                self._owed[savepoint] = left  # in one act: threads look at what is owed meanwhile
            else:
                self.withdraw(savepoint)

    def were_kept(self, uid: str, committables: list[Any]) -> None:
        """The job has gone back to a snapshot that names these, and published them. A savepoint may hold the rows of a
        committable too, and names the same one."""
        published = list(map(_without_rows, committables))
        for output in self.to_keep(uid):
            if output.committable is not None and _without_rows(output.committable) in published:
                self.keep(output)

    def to_keep(self, uid: str) -> list[Output]:
        """What is owed of a sink."""
        return [output for outputs in list(self._owed.values()) for output in outputs if output.uid == uid]


def _without_rows(committable: Any) -> Any:
    if not isinstance(committable, dict):
        return committable
    return {name: value for name, value in committable.items() if name != "pieces"}
