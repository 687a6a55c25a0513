"""Timestamps, watermarks and idleness."""

from __future__ import annotations

from typing import Any

from beadline.graph.specs import TimestampsSpec
from beadline.runtime.exchange.gate import MAX_WATERMARK, MIN_WATERMARK
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.failure import UserCodeError
from beadline.runtime.messages import StepHeader, SubtaskAck, SubtaskInput
from beadline.runtime.operators.base import Operator, Setup
from beadline.state.store import Store


class TimestampsOperator(Operator):
    """Assigns timestamps and makes watermarks.

    A watermark follows a fixed number of records, counted over the whole stream, and the last record of a step that
    caught up with its source: a replay of the same records makes the same watermarks, wherever steps are cut, and a
    slow stream still moves on. Idleness is decided by the step's processing time.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        spec = self.node.spec
        assert isinstance(spec, TimestampsSpec)
        strategy = spec.strategy
        self._every = spec.every
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
        if self._active_at is None:
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
            self.output.watermark(watermark)

    def watermark(self, watermark: int) -> None:
        # Watermarks from before this operator end here; only the end of input passes.
        if watermark == MAX_WATERMARK:
            self._sent = watermark
            self.output.watermark(watermark)

    def end_step(self) -> None:
        if self._makes_watermarks and self._caught_up and self._sent != MAX_WATERMARK:
            self._send()
        assert self._active_at is not None
        if self._idle_after is not None and self._sent != MAX_WATERMARK:
            idle = self._header.now >= self._active_at + self._idle_after
            if idle and not self._idle:
                self._idle = True
                self.output.idle()

    def finish(self, ack: SubtaskAck) -> None:
        if self._idle_after is not None and not self._idle and self._active_at is not None:
            ack.next_timer = self._active_at + self._idle_after
        super().finish(ack)
        ack.watermark = self._sent
