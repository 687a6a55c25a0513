"""The operators, one family per module, and :func:`make_operator`, which builds one from its spec.

``base`` is what an operator is to the task that runs it. ``describe`` opens operators before a job runs, to learn which
states they declare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beadline.graph.specs import (
    AsyncSpec,
    BroadcastSpec,
    CollectSpec,
    FunctionSpec,
    IntervalJoinSpec,
    JoinWindowSpec,
    LookupSpec,
    PrintSpec,
    SinkSpec,
    SourceSpec,
    TimestampsSpec,
    WindowSpec,
)
from beadline.runtime.operators.base import Operator, Setup
from beadline.runtime.operators.broadcast import BroadcastOperator
from beadline.runtime.operators.functions import FUNCTION_OPERATORS
from beadline.runtime.operators.joins import IntervalJoinOperator, JoinWindowOperator
from beadline.runtime.operators.lookup import LookupOperator
from beadline.runtime.operators.parts import GeneratedByPart, TimestampsByPart
from beadline.runtime.operators.sources_and_sinks import CollectOperator, PrintOperator, SinkOperator, SourceOperator
from beadline.runtime.operators.timestamps import GeneratedWatermarksOperator, TimestampsOperator
from beadline.runtime.operators.windowing.folded import make_window_operator

__all__ = ["Operator", "Setup", "make_operator"]


def _make_async_operator(setup: Setup) -> Operator[Any]:
    from beadline.runtime.operators.async_io import AsyncOperator  # asyncio takes a while to import

    return AsyncOperator(setup)


def _make_timestamps_operator(setup: Setup) -> Operator[Any]:
    spec = setup.node.spec
    assert isinstance(spec, TimestampsSpec)
    if spec.strategy.kind == "generator":
        return GeneratedByPart(setup) if spec.at_source else GeneratedWatermarksOperator(setup)
    return TimestampsByPart(setup) if spec.at_source else TimestampsOperator(setup)


_BY_SPEC: dict[type, Callable[[Setup], Operator[Any]]] = {
    SourceSpec: SourceOperator,
    TimestampsSpec: _make_timestamps_operator,
    PrintSpec: PrintOperator,
    CollectSpec: CollectOperator,
    SinkSpec: SinkOperator,
    WindowSpec: make_window_operator,
    JoinWindowSpec: JoinWindowOperator,
    IntervalJoinSpec: IntervalJoinOperator,
    LookupSpec: LookupOperator,
    AsyncSpec: _make_async_operator,
    BroadcastSpec: BroadcastOperator,
}


def make_operator(setup: Setup) -> Operator[Any]:
    spec = setup.node.spec
    if isinstance(spec, FunctionSpec):
        return FUNCTION_OPERATORS[spec.shape](setup)
    return _BY_SPEC[type(spec)](setup)
