"""The operator state of one operator subtask, from the task's point of view: when it is loaded, when user code is asked
for it, and which function objects may be kept.

A step is a snapshot: work may resume from any sealed step. So functions are asked for their state at the end of every
step, and what they give is part of the acknowledgement.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from typing import Any

from beadline.api.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedRawStateFunction,
    RawStateFunction,
    check_inherits,
    has_own_state,
)
from beadline.api.runtime_context import KeyedStateStore
from beadline.api.state import BroadcastState, ListState, OperatorStateStore
from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from beadline.errors import StateAccessError
from beadline.graph.plan import PlanNode
from beadline.runtime.messages import StepHeader
from beadline.state.description import StateDescription
from beadline.state.key_groups import key_group_range
from beadline.state.operator.handles import KEYED_RAW, LIST, RAW, UNION, OperatorStateHandle, store
from beadline.state.operator.states import OperatorBroadcastState, OperatorStateBackend
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.version import SegmentRef

# How many checkpoints are remembered, so that functions hear of none twice.
_REMEMBERED = 256

Call = Callable[..., Any]


class FunctionStates:
    """The operator state of one operator subtask, and the life of the functions that have it.

    In a step: :meth:`continues` (if not, new functions are made), :meth:`begin`, for new functions
    :meth:`initialize`, :meth:`notify`, then the records, :meth:`snapshot`, :meth:`store`.
    """

    def __init__(self, node: PlanNode, subtask: int, keyed_store: KeyedStateStore, attempt: int, call: Call) -> None:
        self._node = node
        self._subtask = subtask
        self._keyed_store = keyed_store
        self._attempt = attempt
        self._call = call
        own = self._own_functions()
        behind = [function for edge in node.outputs for function in edge.partitioning.functions()]
        for function in own:
            check_inherits(function)
        for function in behind:
            if has_own_state(function):
                raise StateAccessError(
                    f"{type(function).__name__} after operator '{node.name}' is a key selector or partitioner and "
                    "can't have operator state; keep it in the function of an operator"
                )
        self._stateful = [function for function in own if has_own_state(function)]
        self._listeners = [f for f in [*own, *behind] if isinstance(f, CheckpointListener)]
        self._backend: OperatorStateBackend | None = OperatorStateBackend(node.name) if self._stateful else None
        self._heard: deque[int] = deque(maxlen=_REMEMBERED)
        self._sealed_if_before = 0
        self._base: str | None = None
        self._header: StepHeader

    def _own_functions(self) -> list[Any]:
        """The functions of the operator's spec, and a source or sink object that has state or listens."""
        spec = self._node.spec
        found: list[Any] = list(spec.functions())
        for name in ("source", "sink"):
            part = getattr(spec, name, None)
            if has_own_state(part) or isinstance(part, CheckpointListener):
                found.append(part)
        return found

    def broadcast_state(self, descriptor: MapStateDescriptor, owner: Any) -> OperatorBroadcastState:
        """A state of the operator itself, there from the beginning."""
        if self._backend is None:
            self._backend = OperatorStateBackend(self._node.name)
        return self._backend.broadcast_state(descriptor, owner)

    # -- the beginning of a step

    def continues(self, header: StepHeader, handle: OperatorStateHandle | None) -> bool:
        """Whether functions kept from an earlier step may be used in this one.

        Functions whose fields are in snapshots may, if they are at the version that the descriptor names, left there
        by an earlier step. That excludes what a try of this very step left, whether lost or not sealed; an
        abandoned future, after a rollback; and objects of a worker that the subtask has left meanwhile.
        Equal versions have equal content, so it does not matter which attempt made one.
        """
        if self._attempt != header.context.attempt:
            return False
        if not self._stateful:
            return True
        assert self._backend is not None
        # The content of a restored union is right only if all subtasks are restored from it together.
        if self._backend.has_union:
            return False
        named = None if handle is None else handle.version
        return self._sealed_if_before < header.step and self._backend.version == named

    def begin(self, header: StepHeader, handle: OperatorStateHandle | None) -> None:
        self._header = header
        self._base = None if handle is None else handle.version
        if self._backend is not None:
            self._backend.load(handle)

    def initialize(self) -> None:
        for function in self._stateful:
            if isinstance(function, CheckpointedFunction):
                assert self._backend is not None
                own = FunctionStateStore(self._backend, function)
                context = InitializationContext(self._header, own, self._keyed_store)
                self._call(function.initialize_state, context)
            if isinstance(function, RawStateFunction):
                pieces = self._raw(RAW, function).pieces
                if pieces:
                    self._call(function.restore_raw, [io.BytesIO(piece) for piece in pieces])
            if isinstance(function, KeyedRawStateFunction):
                for group, piece in self._raw(KEYED_RAW, function).pieces:
                    self._call(function.restore_keyed_raw, group, io.BytesIO(piece))

    def _raw(self, mode: str, function: Any) -> Any:
        assert self._backend is not None
        return self._backend.raw_state(mode, function)

    def notify(self) -> None:
        """Tell functions how checkpoints ended, in the order of their numbers, each once."""
        if not self._listeners:
            return
        news = [(number, True) for number in self._header.completed]
        news += [(number, False) for number in self._header.aborted]
        for number, complete in sorted(news):
            if number not in self._heard:
                self._heard.append(number)
                for function in self._listeners:
                    tell = function.notify_checkpoint_complete if complete else function.notify_checkpoint_aborted
                    self._call(tell, number)

    # -- the end of a step

    def snapshot(self) -> None:
        for function in self._stateful:
            if isinstance(function, CheckpointedFunction):
                self._call(function.snapshot_state, SnapshotContext(self._header))
            if isinstance(function, RawStateFunction):
                stream = io.BytesIO()
                self._call(function.snapshot_raw, stream)
                self._raw(RAW, function).replace([stream.getvalue()] if stream.getvalue() else [])
            if isinstance(function, KeyedRawStateFunction):
                pieces = []
                for group in key_group_range(self._subtask, self._node.parallelism, self._node.max_parallelism):
                    stream = io.BytesIO()
                    self._call(function.snapshot_keyed_raw, group, stream)
                    if stream.getvalue():
                        pieces.append((group, stream.getvalue()))
                self._raw(KEYED_RAW, function).replace(pieces)

    def store(self, files: SegmentFiles) -> tuple[str | None, OperatorStateHandle | None]:
        """Store what changed. Gives the version that the step began with, and the new handle if it differs."""
        if self._backend is None:
            return None, None
        limit = self._header.context.inline_limit
        occasion = f"-{self._header.context.attempt}-{self._header.step}"

        def keep(data: bytes, entries: int, mode: str) -> SegmentRef:
            # The parts of a union go to every subtask with every step.
            return store(data, entries, files, limit // self._node.parallelism if mode == UNION else limit, occasion)

        handle = self._backend.store(keep)
        self._sealed_if_before = self._header.step
        return self._base, handle if handle.version != self._base else None

    def descriptions(self) -> list[StateDescription]:
        return self._backend.descriptions() if self._backend is not None else []

    def descriptors(self) -> dict[str, StateDescriptor]:
        return self._backend.descriptors() if self._backend is not None else {}

    def complaints(self) -> list[tuple[str, str]]:
        """Broadcast values that were changed where they are read-only: the state's name and the complaint."""
        if self._backend is None:
            return []
        found = []
        for state in self._backend.broadcast_states():
            changed = state.changed_in_place()
            if changed:
                complaint = (
                    f"operator '{self._node.name}': the value of key {changed[0]!r} in broadcast state '{state.name}' "
                    "was changed in place. Such a change is lost at the end of the step; write the value with put() in "
                    "process_broadcast_element()."
                )
                found.append((state.name, complaint))
        return found


class FunctionStateStore(OperatorStateStore):
    def __init__(self, backend: OperatorStateBackend, owner: Any) -> None:
        self._backend = backend
        self._owner = owner

    def __repr__(self) -> str:
        return f"<OperatorStateStore of {type(self._owner).__name__}>"

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._backend.list_state(state_descriptor, LIST, self._owner)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._backend.list_state(state_descriptor, UNION, self._owner)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._backend.broadcast_state(state_descriptor, self._owner)


class InitializationContext(FunctionInitializationContext):
    def __init__(self, header: StepHeader, operator_store: OperatorStateStore, keyed_store: KeyedStateStore) -> None:
        self._header = header
        self._operator_store = operator_store
        self._keyed_store = keyed_store

    def is_restored(self) -> bool:
        return self._header.base is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._header.base

    def get_operator_state_store(self) -> OperatorStateStore:
        return self._operator_store

    def get_keyed_state_store(self) -> KeyedStateStore:
        return self._keyed_store


class SnapshotContext(FunctionSnapshotContext):
    def __init__(self, header: StepHeader) -> None:
        self._header = header

    def get_checkpoint_id(self) -> int:
        return self._header.step

    def get_checkpoint_timestamp(self) -> int:
        return self._header.now
