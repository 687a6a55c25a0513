"""Timestamps, watermarks and idleness, by the built-in strategies or by the program's own generator."""

from __future__ import annotations

from typing import Any

from beadline.common.watermark_generator import WatermarkOutput
from beadline.errors import SerializationError, TypeMismatchError
from beadline.graph.specs import TimestampsSpec
from beadline.runtime.exchange.gate import MAX_WATERMARK, MIN_WATERMARK
from beadline.runtime.exchange.writer import IDLE, Timestamps
from beadline.runtime.failure import NO_RECORD, UserCodeError
from beadline.runtime.messages import StepHeader, SubtaskAck, SubtaskInput
from beadline.runtime.operators.base import Operator, Setup
from beadline.state.codec import freeze, thaw
from beadline.state.store import Store

ACTIVE = "active"


class TimestampsOperator(Operator[TimestampsSpec]):
    """Assigns timestamps and makes watermarks.

    A watermark follows a fixed number of records, counted over the whole stream, and the last record of a step that
    caught up with its source: a replay of the same records makes the same watermarks, wherever steps are cut, and a
    slow stream still moves on. Idleness is decided by the step's processing time.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        strategy = self.spec.strategy
        self._every = self.spec.every
        self._makes_watermarks = strategy.kind != "none"
        self._delay = strategy.out_of_orderness_ms + 1 if strategy.kind == "bounded" else 1
        self._idle_after = strategy.idle_timeout_ms
        assigner = strategy.timestamp_assigner
        self._extract = None if assigner is None else assigner.extract_timestamp
        self._highest = MIN_WATERMARK
        self._since_last = 0
        self._sent = MIN_WATERMARK
        self._idle = False
        self._active_at: int | None = None
        self._caught_up = False

    def _output_type(self) -> Any:
        return None

    def begin(self, header: StepHeader, start: SubtaskInput, store: Store | None) -> None:
        super().begin(header, start, store)
        self._caught_up = start.caught_up
        if self._active_at is None or (start.waits and not self._idle):
            self._active_at = header.now

    def snapshot(self) -> Any:
        return self._highest, self._since_last, self._sent, self._idle, self._active_at

    def restore(self, own: Any) -> None:
        self._highest, self._since_last, self._sent, self._idle, self._active_at = own

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self.records_in += len(records)
        self._idle = False
        self._active_at = self._header.now
        times = self._timestamps(records, timestamps)
        if not self._makes_watermarks or times is None:
            self.output.emit(records, times)
            return
        start = 0
        while start < len(records):
            end = min(len(records), start + self._every - self._since_last)
            part = times[start:end]
            self._highest = max(self._highest, *part) if len(part) > 1 else max(self._highest, part[0])
            self.output.emit(records[start:end], part)
            self._since_last += end - start
            if self._since_last == self._every:
                self._since_last = 0
                self._send()
            start = end

    def _timestamps(self, records: list[Any], timestamps: Timestamps) -> Timestamps:
        extract = self._extract
        if extract is None:
            return timestamps
        times: list[int] = []
        record = None
        try:
            for position, record in enumerate(records):
                time = extract(record, MIN_WATERMARK if timestamps is None else timestamps[position])
                if time.__class__ is not int:
                    raise TypeError(f"extract_timestamp must return an int in milliseconds, not {time!r}")
                times.append(time)
        except Exception as error:
            raise UserCodeError(self.node, record, error) from error
        return times

    def _send(self) -> None:
        if self._highest == MIN_WATERMARK:
            return
        watermark = self._highest - self._delay
        if watermark > self._sent:
            self._sent = watermark
            self.output.control(watermark)

    def watermark(self, watermark: int) -> None:
        # Watermarks from before this operator end here; only the end of input passes.
        if watermark == MAX_WATERMARK:
            self._sent = watermark
            self.output.control(watermark)

    def end_step(self) -> None:
        if self._makes_watermarks and self._caught_up and self._sent != MAX_WATERMARK:
            self._send()
        assert self._active_at is not None
        if self._idle_after is not None and self._sent != MAX_WATERMARK:
            idle = self._header.now >= self._active_at + self._idle_after
            if idle and not self._idle:
                self._idle = True
                self.output.control(IDLE)

    def finish(self, ack: SubtaskAck) -> None:
        if self._idle_after is not None and not self._idle and self._active_at is not None:
            ack.next_timer = self._active_at + self._idle_after
        super().finish(ack)
        ack.watermark = self._sent
        ack.idle = self._idle


class _Said(WatermarkOutput):
    """Keeps what the generator said until the records before it have been sent."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def emit_watermark(self, watermark: int) -> None:
        if watermark.__class__ is not int:
            raise TypeError(f"emit_watermark takes an int in milliseconds, not {watermark!r}")
        self.waiting.append(watermark)

    def mark_idle(self) -> None:
        self.waiting.append(IDLE)

    def mark_active(self) -> None:
        self.waiting.append(ACTIVE)


class GeneratedWatermarksOperator(TimestampsOperator):
    """Asks the generator at each record, and periodically where the built-in strategies send their watermarks.

    The generator's fields are in the operator's snapshot: a step that is run again begins with the same generator.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._supplier = self.spec.strategy.generator_supplier
        self._generator = self._new_generator()
        self._said = _Said()
        self._marked_idle = False

    def _new_generator(self) -> Any:
        assert self._supplier is not None
        generator = self.call_user(self._supplier)
        for method in ("on_event", "on_periodic_emit"):
            if not callable(getattr(generator, method, None)):
                raise TypeMismatchError(
                    f"operator '{self.node.name}': the supplier of WatermarkStrategy.for_generator must give a "
                    f"WatermarkGenerator, and {generator!r} has no method {method}"
                )
        return generator

    # -- state

    def snapshot(self) -> Any:
        try:
            fields = freeze(self._generator.__getstate__())
        except SerializationError as error:
            raise SerializationError(
                f"operator '{self.node.name}': the fields of {type(self._generator).__name__} are state, and {error}"
            ) from error
        return super().snapshot(), self._marked_idle, fields

    def restore(self, own: Any) -> None:
        timestamps, self._marked_idle, fields = own
        super().restore(timestamps)
        self._generator = self._new_generator()
        self._said = _Said()
        set_fields(self._generator, thaw(fields))

    # -- records

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self.records_in += len(records)
        self._idle = False
        self._active_at = self._header.now
        times = self._timestamps(records, timestamps)
        on_event, said, every = self._generator.on_event, self._said, self._every
        start = 0
        record = None
        try:
            for position, record in enumerate(records):
                on_event(record, MIN_WATERMARK if times is None else times[position], said)
                self._since_last += 1
                if said.waiting or self._since_last >= every:
                    end = position + 1
                    self._emit(records[start:end], None if times is None else times[start:end])
                    start = end
                    self._pass_on()
                    if self._since_last >= every:
                        self._since_last = 0
                        self._send()
        except Exception as error:
            self.fail(record, error)
        self._emit(records[start:], None if times is None else times[start:])

    def _emit(self, records: list[Any], times: Timestamps) -> None:
        if records:
            self.output.emit(records, times)
            if self._marked_idle:
                # Records wake their channel up; the generator says when the stream counts again.
                self.output.control(IDLE)

    def _send(self) -> None:
        try:
            self._generator.on_periodic_emit(self._said)
        except Exception as error:
            raise UserCodeError(
                f"{self.node.name} (on_periodic_emit)", NO_RECORD, error, made_at=self.node.made_at
            ) from error
        self._pass_on()

    def _pass_on(self) -> None:
        for what in self._said.waiting:
            if what == IDLE:
                if not self._marked_idle:
                    self._marked_idle = True
                    self.output.control(IDLE)
            elif what == ACTIVE:
                if self._marked_idle:
                    self._marked_idle = False
                    self.output.control(self._sent)  # the same again moves nothing but wakes the channel up
            elif what > self._sent:
                self._sent = what
                self._marked_idle = False
                self.output.control(what)
        self._said.waiting.clear()


def set_fields(generator: Any, fields: Any) -> None:
    """Give a new object the fields of an older one, as unpickling does."""
    take = getattr(generator, "__setstate__", None)
    if take is not None:
        take(fields)
        return
    plain, slots = fields if isinstance(fields, tuple) else (fields, None)
    if plain is not None:
        vars(generator).clear()
        vars(generator).update(plain)
    for name, value in (slots or {}).items():
        setattr(generator, name, value)
