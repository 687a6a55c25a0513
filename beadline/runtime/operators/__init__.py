"""The operators, one family a module, and :func:`make_operator`, which builds one from its spec."""

from __future__ import annotations

from beadline.graph.specs import (
    CollectSpec,
    FunctionSpec,
    PrintSpec,
    SinkSpec,
    SourceSpec,
    TimestampsSpec,
    WindowSpec,
)
from beadline.runtime.operators.base import Operator, Setup
from beadline.runtime.operators.functions import FUNCTION_OPERATORS
from beadline.runtime.operators.sinks import CollectOperator, PrintOperator, SinkOperator
from beadline.runtime.operators.sources import SourceOperator
from beadline.runtime.operators.timestamps import TimestampsOperator
from beadline.runtime.operators.windows import WindowOperator

__all__ = ["Operator", "Setup", "make_operator"]

_BY_SPEC: dict[type, type[Operator]] = {
    SourceSpec: SourceOperator,
    TimestampsSpec: TimestampsOperator,
    PrintSpec: PrintOperator,
    CollectSpec: CollectOperator,
    SinkSpec: SinkOperator,
    WindowSpec: WindowOperator,
}


def make_operator(setup: Setup) -> Operator:
    spec = setup.node.spec
    if isinstance(spec, FunctionSpec):
        return FUNCTION_OPERATORS[spec.shape](setup)
    return _BY_SPEC[type(spec)](setup)
