"""Where an operator's results go: the next operators of its level, and the writers of its exchanges."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from beadline.api.output_tag import OutputTag
from beadline.common.typeinfo import TypeInformation
from beadline.errors import TypeMismatchError
from beadline.graph.plan import PlanEdge, PlanNode
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.failure import UserCodeError
from beadline.state.codec import dumps, is_immutable, loads_trusted

if TYPE_CHECKING:
    from beadline.runtime.operators.base import Operator
    from beadline.runtime.task.stopwatch import Stopwatch

# Local edges have channel numbers of their own, above all exchanges.
_LOCAL_CHANNEL = 1 << 30


class Target(Protocol):
    def records(self, records: list[Any], timestamps: Timestamps) -> None: ...

    def control(self, element: Any) -> None: ...


class LocalTarget:
    """A forward edge within a level: the next operator is called."""

    def __init__(self, edge: PlanEdge, operator: Operator[Any], watch: Stopwatch) -> None:
        self._operator = operator
        self._node = edge.target
        self._watch = watch
        self._input = edge.input_index
        self._channel = local_channel(edge)

    def records(self, records: list[Any], timestamps: Timestamps) -> None:
        self._operator.gate.mark_active(self._channel)
        before = self._watch.enter(self._node)
        self._operator.records(self._input, records, timestamps, None)
        self._watch.enter(before)

    def control(self, element: Any) -> None:
        before = self._watch.enter(self._node)
        self._operator.control(self._channel, element)
        self._watch.enter(before)

    def part(self, name: str) -> None:
        self._operator.part(name)

    def doubt(self) -> None:
        self._operator.doubt()


def local_channel(edge: PlanEdge) -> int:
    return _LOCAL_CHANNEL | edge.index


def is_tagged(result: Any) -> bool:
    """Whether a result is ``(tag, value)``, for a side output."""
    return result.__class__ is tuple and len(result) == 2 and result[0].__class__ is OutputTag


class Output:
    """
    :param lets_through: a result that does not fit its type goes to the next operator, which is called directly, as it
        is. An operator that passes records on unchanged is told then, so that it checks what it passes
    """

    def __init__(
        self,
        operator: str | PlanNode,
        output_type: TypeInformation | None,
        side_types: dict[str, TypeInformation],
        lets_through: bool = False,
    ) -> None:
        self._operator = operator
        self._lets_through = lets_through
        self._convert = output_type.converter() if output_type is not None else None
        # Values of some types can't change once they are converted: operators convert them as they are produced.
        self.take = self._taker(self._convert) if output_type is not None and output_type.is_immutable() else None
        self._convert_side = {tag: type_info.converter() for tag, type_info in side_types.items()}
        self._main: list[Target] = []
        self._side: dict[str, list[Target]] = {}
        self.records_out = 0

    def expect(self, output_type: TypeInformation) -> None:
        """Check what is sent from now on against this type."""
        if self._convert is None:
            self._convert = output_type.converter()

    def _taker(self, convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        """Converts a result as soon as there is one; results for a side output have types of their own."""
        if convert is None:
            return None

        def take(result: Any) -> Any:
            try:
                return convert(result)
            except TypeMismatchError:
                if is_tagged(result):
                    return result
                if not self._lets_through:
                    raise
            self._doubt()
            # Nobody may change it later, as with results of types that can't change.
            return result if is_immutable(result) else loads_trusted(dumps(result))

        return take

    def _doubt(self) -> None:
        for target in self._main:
            if isinstance(target, LocalTarget):
                target.doubt()

    def connect(self, targets: list[tuple[str | None, Target]]) -> None:
        self._main = [target for tag, target in targets if tag is None]
        self._side = {}
        for tag, target in targets:
            if tag is not None:
                self._side.setdefault(tag, []).append(target)

    def emit(self, records: list[Any], timestamps: Timestamps, taken: bool = False) -> None:
        """Send records on. ``taken``: they have gone through :attr:`take`."""
        if not records:
            return
        if self._convert is not None and not taken:
            records = self._converted(records, self._convert)
        self.records_out += len(records)
        self._deliver(self._main, records, timestamps)

    def emit_side(self, tag: str, records: list[Any], timestamps: Timestamps) -> None:
        targets = self._side.get(tag)
        if not targets:
            return
        convert = self._convert_side.get(tag)
        if convert is not None:
            records = self._converted(records, convert)
        self.records_out += len(records)
        self._deliver(targets, records, timestamps)

    def _converted(self, records: list[Any], convert: Callable[[Any], Any]) -> list[Any]:
        try:
            return [convert(record) for record in records]
        except Exception:
            # Converting changes nothing, so the record at fault is found by doing it again.
            return [self._one_converted(record, convert) for record in records]

    def _one_converted(self, record: Any, convert: Callable[[Any], Any]) -> Any:
        try:
            return convert(record)
        except Exception as error:
            if not (self._lets_through and isinstance(error, TypeMismatchError)):
                raise UserCodeError(self._operator, record, error) from error
        self._doubt()
        return record

    def _deliver(self, targets: list[Target], records: list[Any], timestamps: Timestamps) -> None:
        if len(targets) == 1:
            targets[0].records(records, timestamps)
            return
        # Branches must not see each other's changes to a mutable record.
        shared = all(map(is_immutable, records))
        for position, target in enumerate(targets):
            own = records if shared or position == len(targets) - 1 else loads_trusted(dumps(records))
            target.records(own, timestamps)

    def part(self, name: str) -> None:
        """What comes next is from this part of the source, which matters to operators that are called directly."""
        for target in self._main:
            if isinstance(target, LocalTarget):
                target.part(name)

    def control(self, element: Any) -> None:
        for target in self._main:
            target.control(element)
        for targets in self._side.values():
            for target in targets:
                target.control(element)
