"""The contract of a sink that stages.

In a step a sink only stages: each subtask writes to a hidden place and reports its pieces in the acknowledgement.
When the step is sealed the driver hands the pieces to the sink's committer, which brings them out in two phases, see
:class:`Committer`. Pieces, parts, snapshots and committables are plain data (numbers, text, bytes, lists, dicts).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from beadline.connectors.sink_settings import SinkSettings

#: Calls a function on items, in tasks, or on the driver if they are light; the third argument gives an item's weight.
Call = Callable[[Callable[[Any], Any], list[Any], Callable[[Any], int] | None], list[Any]]


class Stager(ABC):
    """Takes the records of one sink subtask in one step. Runs in tasks."""

    @abstractmethod
    def write(self, records: list[Any], timestamps: list[int] | None) -> None:
        """Stage records; nothing may become visible."""

    @abstractmethod
    def finish(self) -> list[Any]:
        """The pieces that were staged, as plain data."""


class Held(NamedTuple):
    """What a checkpoint, or the job itself, still needs of a sink.

    :ivar staged: a snapshot of the committer; None if there is none
    :ivar parts: handed out and not pre-committed
    :ivar committables: pre-committed, and perhaps published
    """

    staged: Any
    parts: list[Any]
    committables: list[Any]


class Former(NamedTuple):
    """An earlier driver that staged and published in the same job's folder, as one sink's output is named after it.

    :ivar run: names the sink in that driver's lineage
    :ivar driver: the driver's random name; empty if it is of a version that gave none
    :ivar is_own: it was of the lineage that goes on now: what it published may have to be taken back
    :ivar whereabouts: what the sink said of where it writes; None if that is not known
    """

    run: str
    driver: str
    epoch: int
    is_own: bool
    whereabouts: Any = None


class Committer(ABC):
    """Brings out what a sink has staged. It lives on the driver.

    1. :meth:`sealed`: a step was sealed, and its pieces are taken over
    2. :meth:`due`: a checkpoint is taken, and what is complete is handed out as *parts*; :meth:`snapshot` has the rest
    3. :meth:`precommitter`: before the checkpoint is written, each part is made ready, so that publishing it is one act
       that can't fail half way. The answer, a *committable*, is stored in the checkpoint
    4. :meth:`make_durable`: whatever the snapshot refers to is durable; now the checkpoint is written
    5. :meth:`publish`: the checkpoint has completed, and each committable becomes visible; on restore, again
    6. :meth:`tidy`: nobody can go back further than the checkpoint any more; remove what only older ones needed

    Anything may be tried twice, and an attempt thought dead may wake up at any time. An attempt of step 3 makes
    something that no other attempt makes, and only what is named in a completed checkpoint is ever published: what
    other attempts made is left over, and removed. Step 5 uses up what step 3 made. If that is gone, the committable was
    published before, and nothing is done: a consumer may have taken the output away since, and it must not come back.
    """

    #: Whether output leaves in the order in which it was handed out.
    in_order = False

    @abstractmethod
    def sealed(self, pieces: list[Any], now: int, final: bool) -> None:
        """Take the pieces of a sealed step."""

    @abstractmethod
    def due(self, at_checkpoint: bool) -> list[Any]:
        """The parts that are complete now, each handed out once. ``at_checkpoint``: one is being taken."""

    @abstractmethod
    def snapshot(self) -> Any:
        """What has been taken and not handed out, as plain data."""

    @abstractmethod
    def precommitter(self) -> Callable[[Any], Any]:
        """A picklable function that makes one part ready, durable and invisible, and gives its committable.

        It leaves the pieces alone: the job may have to go back to a checkpoint that needs them."""

    def turn(self, part: Any) -> int:
        """Parts of one turn are pre-committed at the same time, after those of earlier turns: some systems show output
        in the order in which it was made ready, not in the one in which it is published."""
        return 0

    def weight(self, part: Any) -> int:
        """How many bytes it takes to pre-commit a part. The driver does light parts itself; others go to
        tasks, where it may have to wait for a slot."""
        return 0

    def sweep(self, known: list[Any]) -> None:
        """Some parts were pre-committed, or failed to be. Remove what this driver's attempts made ready, unless one of
        the ``known`` committables names it. Nothing is being pre-committed meanwhile."""

    @abstractmethod
    def make_durable(self, snapshot: Any) -> None:
        """Whatever it refers to must survive a crash of the machine from now on. Runs alongside the steps."""

    @abstractmethod
    def publish(self, committables: list[Any], call: Call, recovering: bool) -> list[Any]:
        """Publish committables; nothing happens to those that were published before. Runs alongside the steps; never
        twice at a time if they leave in order.

        :param call: calls a picklable function on each, in tasks or here
        :param recovering: the job has gone back to a checkpoint that names them
        :returns: those that can't be published any more. Nothing after them is published before :meth:`again`
        """

    def again(self, parts: list[Any], lost: list[Any]) -> list[Any]:
        """Some committables were lost.

        :param parts: all that are not visible, in order; a committable stands for its part
        :param lost: what :meth:`publish` gave back
        :returns: the parts to make ready in place of these; None where a part is as good as before
        """
        raise AssertionError("what was made ready is never lost")

    def strays(self, data: Any, also: list[str]) -> Iterator[str]:
        """What a snapshot has of this sink, which may be anybody's, and the sink must not obey: a sentence for each.
        Called before :meth:`restore`, and nothing has been touched.

        :param data: ``{"staged": …, "committables": […]}``
        :param also: folders where the job of the snapshot may have staged
        """
        return iter(())

    @abstractmethod
    def restore(self, snapshot: Any, needed: list[Held], epoch: int | None = None) -> None:
        """Go back to a snapshot, before anything is staged or published.

        1. forget what has been taken since
        2. remove what was made ready and no committable in ``needed`` names: from here on nobody can publish it
        3. undo what was published since: its records will come again

        :param needed: of the checkpoint that is restored, and of older ones
        :param epoch: of the driver that took the snapshot, if it was of this lineage: what this and later ones
            published is to be taken back. None if the job began since, from nothing or from a snapshot of another
        """

    def portable(self, snapshot: Any, parts: list[Any]) -> Any:
        """A snapshot for a savepoint, which outlives what is staged: with all data in it. Runs alongside the steps.

        :param parts: handed out, and in the savepoint as if they had not been
        """
        return snapshot

    def portable_committables(self, committables: list[Any]) -> list[Any]:
        """The same for what a savepoint names because it is ready: it must outlive what is staged, should it be lost,
        and drivers of this job that go on from elsewhere."""
        return committables

    def staged_size(self) -> int:
        """How many bytes the next checkpoint would hand out."""
        return 0

    def tidy(self, needed: list[Held], idle: bool) -> None:
        """Remove what was handed out and is no longer needed.

        :param needed: what the job may go back to or has not published
        :param idle: nothing is being staged: remove all that is neither needed nor taken
        """

    def close(self, discard: bool) -> None:
        """The job has ended. ``discard``: nobody will go on from here, remove what is staged."""


class StagedSink(ABC):
    """What the engine asks of a sink.

    :ivar stages_in_job_folder: whether it needs a folder of the job's to stage in
    :ivar needs_checkpoints: whether a job that never ends must take checkpoints, for what the user asked of the sink
    :ivar settings: of all sinks of the job
    """

    stages_in_job_folder = False
    needs_checkpoints = False
    settings = SinkSettings()

    def without_checkpoints(self) -> str:
        """What the user should know of output that is seen late in a job that never ends and takes no checkpoints."""
        return ""

    def prepare(
        self, run: str, epoch: int = 0, folder: str = "", driver: str = "", former: Sequence[Former] = ()
    ) -> None:
        """Called on the driver before the first step, and before the plan is shipped.

        :param run: names the sink of this job, the same whenever the job is resumed
        :param epoch: counts the drivers of the job
        :param folder: to stage in, if it needs one; all workers reach it
        :param driver: a random name. What this driver makes outside is named by it; nothing else may be touched but
            what ``former`` drivers made: other jobs may write to the same place, and a driver that took this one's
            job may be at work already
        :param former: the drivers before this one
        """

    def whereabouts(self) -> Any:
        """Where it writes and how it names what it makes, as plain data, for later drivers. Called when prepared."""
        return None

    @abstractmethod
    def stager(self, subtask: int, step: int, now: int) -> Stager:
        """A stager for one subtask and step."""

    @abstractmethod
    def committer(self) -> Committer:
        """The committer of this run."""

    def guarantee(self) -> str:
        """What the sink can give at best, if checkpoints are on: ``exactly-once`` or ``at-least-once``."""
        return "exactly-once"
