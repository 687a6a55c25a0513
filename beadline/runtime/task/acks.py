"""What an operator did in a step: its deltas are written and its part of the acknowledgement is made."""

from __future__ import annotations

from collections import deque
from typing import Any

from beadline.api.checkpointed import has_own_state
from beadline.api.function import Function
from beadline.api.metrics import Metric, MetricGroup
from beadline.api.runtime_context import RuntimeContext
from beadline.api.state import State
from beadline.errors import BeadlineError
from beadline.runtime.failure import UserCodeError
from beadline.runtime.messages import StepHeader, SubtaskAck
from beadline.runtime.operators import Operator
from beadline.runtime.worker.worker import WorkerExecution
from beadline.state.segments.segment import count_entries, encode_segment
from beadline.state.segments.version import SegmentRef, next_version

_ATOMS = (str, int, float, bool, bytes, complex, type(None))
_OURS = (State, Metric, MetricGroup, RuntimeContext)
_CONTAINERS = (list, dict, set, deque, bytearray)
_LOOK_INTO = 16


class Acks:
    """Makes the acknowledgements of one task's operators; it is told where each of them begins."""

    def __init__(self, execution: WorkerExecution, header: StepHeader, partition: int) -> None:
        self._run = execution
        self._header = header
        self._partition = partition
        self._versions: dict[int, str] = {}
        self._fingerprints: dict[int, list[dict[str, Any]]] = {}

    def begin(self, operator: Operator[Any], version: str | None) -> None:
        """:param version: the version of its keyed state, if it has any"""
        if version is not None:
            self._versions[operator.node.id] = version
        self._fingerprints[operator.node.id] = [fingerprint(f) for f in _with_plain_fields(operator)]

    def of(self, operator: Operator[Any]) -> SubtaskAck:
        """Take the snapshot of the functions, write what changed, and say so."""
        ack = SubtaskAck(operator.node.id, self._partition)
        operator.states.snapshot()
        operator.finish(ack)
        if operator.backend is not None:
            self._write_delta(operator, ack)
        self._write_states(operator, ack)
        ack.descriptions = operator.descriptions()
        ack.changed_fields = self._changed_fields(operator)
        return ack

    def _write_delta(self, operator: Operator[Any], ack: SubtaskAck) -> None:
        assert operator.backend is not None
        node = operator.node
        store = self._run.stores[node.id, self._partition]
        try:
            content = operator.backend.finish()
            data = encode_segment(content, node.max_parallelism, codec=self._header.context.codec)
        except BeadlineError as error:
            raise UserCodeError(node.name, "(state)", error, made_at=node.made_at) from error
        base = self._versions[node.id]
        ack.base_version = base
        ack.keys = store.count()
        if not data:
            return
        version = next_version(base, data)
        ack.touched = count_entries(content)
        if len(data) <= self._header.context.inline_limit:
            ack.delta = SegmentRef(version, ack.touched, len(data), inline=data)
        else:
            ack.delta = self._run.files.store(f"{version}.run", data, version, ack.touched)
        store.keep(version, content)

    def _write_states(self, operator: Operator[Any], ack: SubtaskAck) -> None:
        try:
            for name, complaint in operator.states.complaints():
                if self._is_news(operator, f"state {name}"):
                    ack.warnings.append(complaint)
            ack.base_states, ack.states = operator.states.store(self._run.files)
        except BeadlineError as error:
            raise UserCodeError(operator.node.name, "(operator state)", error, made_at=operator.node.made_at) from error

    def _changed_fields(self, operator: Operator[Any]) -> list[str]:
        names = []
        for function, before in zip(_with_plain_fields(operator), self._fingerprints[operator.node.id], strict=True):
            for name in changed(before, function):
                if self._is_news(operator, name):
                    names.append(f"{type(function).__name__}.{name}")
        return names

    def _is_news(self, operator: Operator[Any], what: str) -> bool:
        known = len(self._run.reported)
        self._run.reported.add((operator.node.id, what))
        return len(self._run.reported) > known


def _with_plain_fields(operator: Operator[Any]) -> list[Function]:
    """The functions whose fields are in no snapshot."""
    return [function for function in operator.functions() if not has_own_state(function)]


# -- fields are not state: those of user functions that changed during a step


def fingerprint(function: Function) -> dict[str, Any]:
    """A cheap picture of a function's fields; equal pictures mean that nothing obvious changed."""
    return {name: _picture(value, depth=2) for name, value in vars(function).items() if not isinstance(value, _OURS)}


def changed(before: dict[str, Any], function: Function) -> list[str]:
    after = fingerprint(function)
    # In tuples, where a NaN equals itself.
    return sorted(name for name in before.keys() | after.keys() if (before.get(name),) != (after.get(name),))


def _picture(value: Any, depth: int) -> Any:
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, _CONTAINERS):
        if depth == 0 or len(value) > _LOOK_INTO:
            return id(value), len(value)
        items = list(value.items()) if isinstance(value, dict) else list(value)
        return id(value), len(value), tuple(_picture(item, depth - 1) for item in items)
    if isinstance(value, tuple) and depth > 0 and len(value) <= _LOOK_INTO:
        return tuple(_picture(item, depth - 1) for item in value)
    return id(value)
