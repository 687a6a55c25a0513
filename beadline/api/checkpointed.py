"""Functions that keep operator state: state of a subtask rather than of a key.

Beadline cuts the stream into steps, and every step ends in a snapshot that work may resume from. So ``snapshot_state``
is called at the end of every step, not only for checkpoints: it should cost no more than storing its values. Before any
step a new function object may be made (its worker was lost, or Spark gave the subtask to another one). Its
``initialize_state`` then finds what the last ``snapshot_state`` left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

from beadline.errors import StateAccessError

if TYPE_CHECKING:
    from beadline.api.runtime_context import KeyedStateStore
    from beadline.api.state import OperatorStateStore


class FunctionSnapshotContext(ABC):
    """Passed to ``snapshot_state``."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """The number of this snapshot. It grows from step to step. A checkpoint has the number of its step,
        so most numbers never belong to a checkpoint."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """The processing time of the step, in milliseconds."""


class FunctionInitializationContext(ABC):
    """Passed to ``initialize_state``."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether there is a snapshot to resume from: False only for objects of the job's very first step."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """The number of the snapshot that is resumed from, None if there is none."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Where list, union list and broadcast state come from."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Where keyed state comes from, for functions after ``key_by``."""


class CheckpointedFunction(ABC):
    """Any function with operator state; inherit from it and from ``MapFunction`` or the like.

    ::

        class Batches(FlatMapFunction, CheckpointedFunction):
            def initialize_state(self, context):
                self.state = context.get_operator_state_store().get_list_state(
                    ListStateDescriptor("waiting", Types.LONG()))
                self.waiting = list(self.state.get())

            def snapshot_state(self, context):
                self.state.update(self.waiting)

            def flat_map(self, value):
                self.waiting.append(value)
                if len(self.waiting) == 10:
                    batch, self.waiting = self.waiting, []
                    yield batch

    Fields of such a function may change: whatever ``initialize_state`` can build again from state is safe.
    """

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the states up to date; called at the end of every step, after its last element."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the states and take up what they hold; called once per object, before ``open``."""


class CheckpointListener(ABC):  # noqa: B024 - a function may listen to either
    """A function that wants to know what became of checkpoints.

    An object hears of each checkpoint at most once, in order, before the first element of a step. It may miss one: keep
    in state what must not be missed, and handle all snapshots up to the completed one.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is durable: the job never goes back to an earlier one."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint failed or was overtaken; a later one will hold what it would have held."""


class RawStateFunction(ABC):
    """A function that writes the bytes of its state itself: an index, a model, a library's own format.

    The bytes of a subtask are one element: after a change of parallelism a subtask gets the bytes of none, one or
    several others.
    """

    @abstractmethod
    def snapshot_raw(self, stream: BinaryIO) -> None:
        """Write everything; called at the end of every step. Equal bytes are stored once."""

    @abstractmethod
    def restore_raw(self, streams: Iterable[BinaryIO]) -> None:
        """Take up what was written, in the order of the subtasks; called before ``open`` if there is anything."""


class KeyedRawStateFunction(ABC):
    """Like :class:`RawStateFunction`, by key group: the bytes of a group go where the keys of that group go.

    ``beadline.state.key_groups.key_group_of(key, max_parallelism)`` tells the group of a key.
    """

    @abstractmethod
    def snapshot_keyed_raw(self, key_group: int, stream: BinaryIO) -> None:
        """Write what belongs to one key group; called for each group of the subtask at the end of every step."""

    @abstractmethod
    def restore_keyed_raw(self, key_group: int, stream: BinaryIO) -> None:
        """Take up one key group; called before ``open`` for each group that has bytes."""


_METHODS: dict[type, tuple[str, ...]] = {
    CheckpointedFunction: ("snapshot_state", "initialize_state"),
    RawStateFunction: ("snapshot_raw", "restore_raw"),
    KeyedRawStateFunction: ("snapshot_keyed_raw", "restore_keyed_raw"),
    CheckpointListener: ("notify_checkpoint_complete", "notify_checkpoint_aborted"),
}


def check_inherits(function: Any) -> None:
    """Refuse a class that has a method of these interfaces and doesn't inherit from them: it would not be called."""
    for interface, methods in _METHODS.items():
        found = [name for name in methods if callable(getattr(function, name, None))]
        if found and not isinstance(function, interface):
            name = (function if isinstance(function, type) else type(function)).__name__
            raise StateAccessError(
                f"{name} has {found[0]}() but is not a {interface.__name__}, so it would never be called: write "
                f"class {name}(…, {interface.__name__})"
            )


def has_own_state(function: Any) -> bool:
    """Whether an object's fields go into snapshots, so that they must agree with the snapshot."""
    return isinstance(function, (CheckpointedFunction, RawStateFunction, KeyedRawStateFunction))
