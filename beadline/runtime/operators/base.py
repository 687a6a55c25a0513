"""What an operator is to the task that runs it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, TypeVar, cast

from beadline.api.function import Function
from beadline.api.output_tag import OutputTag
from beadline.api.state_descriptors import StateDescriptor
from beadline.api.time_domain import TimeDomain
from beadline.graph.plan import PlanNode
from beadline.graph.specs import Spec
from beadline.runtime.exchange.gate import MIN_WATERMARK, WatermarkGate
from beadline.runtime.exchange.output import Output, is_tagged
from beadline.runtime.exchange.writer import IDLE, ChannelWriter, Timestamps
from beadline.runtime.failure import NO_RECORD, UserCodeError
from beadline.runtime.functions.aliasing import add_settled, only_atoms, settle_keyed
from beadline.runtime.functions.context import CallContext, Clock, KeyedCallContext, KeyedClock, SubtaskContext
from beadline.runtime.functions.printed import Printed
from beadline.runtime.functions.states import FunctionStates
from beadline.runtime.messages import StepHeader, SubtaskAck, SubtaskInput
from beadline.state.access.backend import KeyedBackend
from beadline.state.codec import dumps, loads_own
from beadline.state.description import KEYED, OPERATOR, StateDescription
from beadline.state.store import Store

_EMIT_AT = 4096

SpecT = TypeVar("SpecT", bound=Spec)


@dataclass
class Setup:
    """Where an operator subtask stands."""

    node: PlanNode
    subtask: int
    parameters: dict[str, str] = field(default_factory=dict)
    attempt: int = 0


class Operator(Generic[SpecT]):
    """One operator subtask in one worker. It outlives steps; what it keeps between them is in its snapshot, in keyed
    state or in operator state.

    The life of a step: :meth:`begin`, then records and watermarks as they come, :meth:`finish`.
    """

    def __init__(self, setup: Setup) -> None:
        self.node = setup.node
        self.spec = cast(SpecT, setup.node.spec)
        self.subtask = setup.subtask
        self.backend = KeyedBackend(self.node.name) if self.node.keyed else None
        self.context = SubtaskContext(self.node, self.subtask, self.backend, setup.parameters, setup.attempt)
        self.states = FunctionStates(self.node, self.subtask, self.context, setup.attempt, self.call_user)
        # Only a source may drop a record that its output refuses; for other operators it is a result, never poison.
        owner = self.node if self.node.is_source else self.node.name
        self.output = Output(owner, self._output_type(), self.node.side_types, self.node.lets_through)
        self.gate: WatermarkGate = WatermarkGate(())
        self.printed = Printed()
        self.writers: dict[int, ChannelWriter] = {}
        self.opened = False
        self.records_in = 0
        self._untouched: bytes | None = None
        self._header: StepHeader

    def _output_type(self) -> Any:
        return self.node.output_type

    # -- the life of a function

    def functions(self) -> list[Function]:
        """The operator's own function, then the key selectors and partitioners after it."""
        found = self.spec.functions()
        for edge in self.node.outputs:
            found += edge.partitioning.functions()
        return found

    def open(self) -> None:
        """Open the user's functions, once per object; those with operator state have taken it up before."""
        for function in self.functions():
            self.call_user(function.open, self.context)
        self.opened = True

    def close(self) -> None:
        if self.opened:
            self.opened = False
            for function in self.functions():
                self.call_user(function.close)

    def call_user(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            self.fail(NO_RECORD, error)

    def fail(self, record: Any, error: Exception) -> NoReturn:
        """User code raised while it worked on a record, unless it is known already where that was."""
        if isinstance(error, UserCodeError):
            raise error
        raise UserCodeError(self.node, record, error) from error

    # -- the life of a step

    def begin(self, header: StepHeader, start: SubtaskInput, store: Store | None) -> None:
        """Take the state of the version that the step starts from."""
        self._header = header
        self.records_in = self.output.records_out = 0
        if self.backend is not None:
            assert store is not None
            self.backend.begin(store, header.now, self.spec.windowed)
        if self._untouched is None:
            self._untouched = pickle.dumps(self.snapshot(), 5)
        if start.local is not None:
            gate, own = loads_own(start.local)
            self.gate.restore(gate)
            self.restore(own)
        else:
            # The first step again: a try that was not sealed may have left something.
            self.restore(pickle.loads(self._untouched))

    def start(self) -> Iterator[None]:
        """Work that is due before the first record; a source does all of its work here and yields between batches."""
        return iter(())

    def restore(self, own: Any) -> None:
        """Take back what :meth:`snapshot` gave."""

    def snapshot(self) -> Any:
        """Small state of the subtask itself, apart from keyed state."""
        return None

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        raise NotImplementedError

    def control(self, channel: int, element: Any) -> None:
        was_idle = self.gate.idle
        moved = self.gate.mark_idle(channel) if element == IDLE else self.gate.advance(channel, element)
        if moved is not None:
            self.take_up(moved)
        if element == IDLE and self.gate.idle and not was_idle:
            self.take_up(IDLE)

    def doubt(self) -> None:
        """The next records may not fit the type that the operator before this one declares."""

    def part(self, name: str) -> None:
        """The source before this operator goes on with one of its parts."""

    def take_up(self, element: Any) -> None:
        """The operator's own watermark moved, or it is idle now."""
        if element == IDLE:
            self.output.control(IDLE)
        else:
            self.watermark(element)

    def watermark(self, watermark: int) -> None:
        self.output.control(watermark)

    def end_step(self) -> None:
        """Work that is due after the last record of the step."""

    def end_input(self) -> None:
        """No more input will come, ever."""

    def finish(self, ack: SubtaskAck) -> None:
        ack.records_in, ack.records_out = self.records_in, self.output.records_out
        ack.local = dumps((self.gate.snapshot(), self.snapshot()))
        ack.watermark = self.gate.current
        ack.metrics = self.context.metrics.drain()

    def descriptions(self) -> tuple[StateDescription, ...]:
        """Of all keyed and operator states. They are sent with every step: acknowledgements pass through exchanges,
        and a task that is run again in a new worker has to send what the first one sent."""
        keyed = self.backend.descriptions() if self.backend is not None else []
        return tuple(sorted(keyed + self.states.descriptions(), key=lambda state: (state.scope, state.name)))

    def descriptors(self) -> dict[tuple[str, str], StateDescriptor]:
        keyed = self.backend.descriptors() if self.backend is not None else {}
        found = {(KEYED, name): descriptor for name, descriptor in keyed.items()}
        found.update(((OPERATOR, name), descriptor) for name, descriptor in self.states.descriptors().items())
        return found


class FunctionOperator(Operator[SpecT]):
    """Shared by operators that call user functions: clocks, contexts, side outputs, timers.

    :ivar returned_text: the last record of a batch gave a text, whose characters are the results then
    """

    returned_text = False

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.clock: Clock
        self.call: CallContext | KeyedCallContext
        if self.backend is not None:
            self.clock = KeyedClock(self.node.name, self.backend)
            self.call = KeyedCallContext(self.clock, self.backend)
        else:
            self.clock = Clock(self.node.name)
            self.call = CallContext(self.clock)

    def begin(self, header: StepHeader, start: SubtaskInput, store: Store | None) -> None:
        super().begin(header, start, store)
        self.clock.now = header.now
        self.clock.watermark = self.gate.current

    # -- processing

    def process_keyed(self, call: Callable[..., Any], context: Any, records: list[Any], keys: list[Any]) -> None:
        """The hot path of most jobs: ``call(record, context)`` by key, without timestamps."""
        assert self.backend is not None
        self.records_in += len(records)
        context.time = MIN_WATERMARK
        scope, take = self.backend.scope, self.output.take
        results: list[Any] = []
        add = results.append
        record = produced = None
        try:
            for record, scope.slot in zip(records, keys, strict=True):
                produced = call(record, context)
                if produced is not None:
                    for result in produced:
                        if take is not None:
                            add(take(result))
                        elif result.__class__ is tuple and only_atoms(map(type, result)):
                            add(result)
                        else:
                            add(settle_keyed(result))
        except Exception as error:
            self.fail(record, error)
        self.returned_text |= produced.__class__ is str
        self.emit(results, None, taken=take is not None)

    # -- emitting

    def emit(self, results: list[Any], timestamps: Timestamps, taken: bool = False) -> None:
        """Send results on, those that are ``(tag, value)`` to their side outputs."""
        if OutputTag.in_use and any(map(is_tagged, results)):
            self._emit_tagged(results, timestamps, taken)
        else:
            self.output.emit(results, timestamps, taken)

    def _emit_tagged(self, results: list[Any], timestamps: Timestamps, taken: bool) -> None:
        main: list[Any] = []
        main_times: list[int] = []
        sides: dict[str, tuple[list[Any], list[int]]] = {}
        for position, result in enumerate(results):
            if is_tagged(result):
                values, times = sides.setdefault(result[0].tag_id, ([], []))
                values.append(result[1])
            else:
                values, times = main, main_times
                values.append(result)
            if timestamps is not None:
                times.append(timestamps[position])
        self.output.emit(main, main_times if timestamps is not None else None, taken)
        for tag, (values, times) in sides.items():
            self.output.emit_side(tag, values, times if timestamps is not None else None)

    # -- timers

    def on_timer(self, timestamp: int, context: Any) -> Any:
        """The user's callback; operators that have one override this."""
        return None

    def enter(self, slot: Any) -> None:
        """Make a timer's key the current one."""
        assert self.backend is not None
        self.backend.scope.slot = slot

    def start(self) -> Iterator[None]:
        self._fire_processing_timers()
        return iter(())

    def end_step(self) -> None:
        # A timer set for the past during the step is due now, not at the next step.
        self._fire_processing_timers()

    def watermark(self, watermark: int) -> None:
        self.clock.watermark = watermark
        if self.backend is not None:
            self._fire(self.backend.event_timers.due(watermark), TimeDomain.EVENT_TIME)
        self.output.control(watermark)

    def _fire_processing_timers(self) -> None:
        # At the end of bounded input pending processing-time timers are dropped, as in Flink.
        if self.backend is not None and not self._header.final:
            self._fire(self.backend.processing_timers.due(self.clock.now), TimeDomain.PROCESSING_TIME)

    def _fire(self, due: Any, domain: TimeDomain) -> None:
        assert isinstance(self.call, KeyedCallContext)
        assert self.backend is not None
        results: list[Any] = []
        times: list[int] = []
        self.call.domain = domain
        timestamp = 0
        try:
            for timestamp, slot in due:
                self.enter(slot)
                self.call.time = timestamp
                produced = self.on_timer(timestamp, self.call)
                if produced is not None:
                    add_settled(results, produced, settle_keyed)
                    times.extend([timestamp] * (len(results) - len(times)))
                    if len(results) >= _EMIT_AT:
                        self.emit(results, times)
                        results, times = [], []
        except UserCodeError:
            raise
        except Exception as error:
            raise UserCodeError(
                f"{self.node.name} (timer at {timestamp})",
                self.call.get_current_key(),
                error,
                made_at=self.node.made_at,
            ) from error
        self.emit(results, times)

    def finish(self, ack: SubtaskAck) -> None:
        if self.backend is not None:
            ack.next_timer = self.backend.processing_timers.first()
        super().finish(ack)
        if self.returned_text:
            self.returned_text = False
            place = f" ({self.node.made_at})" if self.node.made_at else ""
            ack.warnings.append(
                f"operator '{self.node.name}'{place}: the function returned a text, and each of its characters is a "
                "result of its own, as in PyFlink. To send the text on, use yield instead of return, or return a list"
            )


class KeyedFunctionOperator(FunctionOperator[SpecT]):
    """One whose input is always keyed."""

    backend: KeyedBackend
    call: KeyedCallContext
