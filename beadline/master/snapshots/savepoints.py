"""Writing canonical savepoints while steps run: short tasks read immutable segments and write Parquet files."""

from __future__ import annotations

import threading
from collections.abc import Callable

from beadline.checkpoint.contents import canonical
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.coordinator.actions import Take
from beadline.checkpoint.storage.durable import Bundle
from beadline.checkpoint.storage.publishing import Fill
from beadline.master.engine import Engine
from beadline.master.telling import first_line
from beadline.master.upkeep.short_tasks import GivenUp, ShortTasks
from beadline.runtime.short_tasks.exporting import Export, Exported

Task = tuple[Export, ...]
#: Gives what exports a task's share in a worker of the execution that runs.
Exporter = Callable[[], Callable[[Task], list[Exported]]]


class CanonicalSavepoints:
    """Writes the state of savepoints as Parquet, one or several at a time."""

    def __init__(self, engine: Engine, group: str) -> None:
        self._engine = engine
        self._group = f"{group}-savepoint"
        self._lock = threading.Lock()
        self._under_way: dict[int, ShortTasks[Task, list[Exported]]] = {}
        self._cancelled: set[int] = set()

    def __repr__(self) -> str:
        return f"<CanonicalSavepoints: {len(self._under_way)} under way>"

    @property
    def busy(self) -> bool:
        """Whether one is being written; merging waits meanwhile, so that a slot stays free for the steps."""
        return bool(self._under_way)

    def filler(self, take: Take, exporter: Exporter) -> Fill:
        """Puts the state of a savepoint into its folder. Runs in a thread of the savepoint's own."""

        def fill(snapshot: Snapshot, bundle: Bundle) -> tuple[Snapshot, int]:
            return self._fill(take, exporter, snapshot, bundle)

        return fill

    def cancel(self, id: int) -> None:
        """The savepoint is not needed any more; if it has not begun, it does not begin."""
        with self._lock:
            self._cancelled.add(id)
            tasks = self._under_way.get(id)
        if tasks is not None:
            tasks.stop()

    def _fill(self, take: Take, exporter: Exporter, snapshot: Snapshot, bundle: Bundle) -> tuple[Snapshot, int]:
        """Put a snapshot's state into a savepoint's folder.

        1. cut it into tasks
        2. let workers write the files, and make them durable
        3. refer to the files that they name; all other files come from failed tries, and are removed
        """
        plan = canonical.plan_of(snapshot, bundle.folder)
        # A job that is to end runs no steps that would need a slot.
        slots = self._engine.slots if take.kind.ends_job else max(1, self._engine.slots - 1)
        tasks: ShortTasks[Task, list[Exported]] = ShortTasks(
            self._engine, f"{self._group}-{take.id}", f"write savepoint {take.id}", slots, exporter
        )
        with self._lock:
            if take.id in self._cancelled:
                raise SnapshotError("the savepoint was given up")
            self._under_way[take.id] = tasks
        try:
            results = tasks.run(list(plan.tasks), until_quiet=True)
        except GivenUp as error:
            raise SnapshotError("the savepoint was given up") from error
        except Exception as error:
            raise SnapshotError(f"state can't be written to the savepoint: {first_line(error)}") from error
        finally:
            with self._lock:
                del self._under_way[take.id]
        exported = [each for share in results for each in share]
        made = canonical.take_in(snapshot, tuple(plan.exports), exported, bundle.published)
        canonical.settle(bundle.folder, made)
        return made, sum({segment.path: segment.size for segment in made.segments if segment.path is not None}.values())
