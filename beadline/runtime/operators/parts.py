"""The watermark strategy of a source with parts: a generator for each part.

The watermark of the subtask is the lowest of its parts that are not idle, as in Flink's source readers. A subtask that
reads no part, because there are more subtasks than parts, holds nobody back.

What is known of a part belongs to the part, not to the subtask: it travels with every step from and to the driver,
which gives it to whoever reads the part.
"""

from __future__ import annotations

from typing import Any

from beadline.errors import ConfigurationError, SerializationError
from beadline.runtime.exchange.gate import MAX_WATERMARK, MIN_WATERMARK
from beadline.runtime.exchange.writer import IDLE, Timestamps
from beadline.runtime.failure import NO_RECORD, UserCodeError
from beadline.runtime.messages import PartState, StepHeader, SubtaskAck, SubtaskInput
from beadline.runtime.operators.base import Setup
from beadline.runtime.operators.timestamps import (
    ACTIVE,
    GeneratedWatermarksOperator,
    TimestampsOperator,
    set_fields,
)
from beadline.state.codec import dumps, freeze, loads_own, thaw
from beadline.state.store import Store


class Lane:
    """Event time in one part.

    :ivar highest: the highest timestamp so far
    :ivar silent: nothing has come for the strategy's idle timeout
    :ivar marked: its generator has marked it as idle
    :ivar active_at: when something came last, in processing time
    """

    __slots__ = ("active_at", "generator", "highest", "marked", "silent", "watermark")

    def __init__(self, now: int) -> None:
        self.watermark = MIN_WATERMARK
        self.highest = MIN_WATERMARK
        self.silent = False
        self.marked = False
        self.active_at = now
        self.generator: Any = None

    @property
    def idle(self) -> bool:
        return self.silent or self.marked


class TimestampsByPart(TimestampsOperator):
    """Assigns timestamps and makes watermarks next to a source. If the source has no parts, it is one part itself.

    What the plain operator keeps of a stream it keeps here of the part that is being read: it is put aside when the
    source goes on with another part.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._lanes: dict[str, Lane] | None = None
        self._lane: Lane | None = None
        self._spare = False

    # -- the life of a step

    def begin(self, header: StepHeader, start: SubtaskInput, store: Store | None) -> None:
        super().begin(header, start, store)
        self._lane = None
        self._spare = start.spare
        self._lanes = None
        if start.parts is not None:
            self._lanes = {name: self._restored(state) for name, state in start.parts.items()}
            for name, lane in self._lanes.items():
                if (start.waits or name in start.waiting_parts) and not lane.silent:
                    lane.active_at = header.now

    def part(self, name: str) -> None:
        if self._lanes is None:
            return
        lane = self._lanes.get(name)
        if lane is None:
            raise ConfigurationError(
                f"operator '{self.node.name}': its source reads from a part {name!r}, which was not planned for this "
                f"subtask: {', '.join(map(repr, self._lanes)) or 'none'} were. read_parts() may name only the parts of "
                "the splits that it is given"
            )
        if lane is not self._lane:
            self._put_aside()
            self._take_out(lane)

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        if self._lanes is not None:
            if self._lane is None:
                raise ConfigurationError(
                    f"operator '{self.node.name}': its source has parts, and read_parts() gave records before it said "
                    "with Part(name) from which part they come"
                )
            self._lane.silent = False
            self._lane.active_at = self._header.now
        super().records(input_index, records, timestamps, keys)

    def end_step(self) -> None:
        if self._lanes is None:
            super().end_step()
            return
        if self._makes_watermarks and self._sent != MAX_WATERMARK:
            if self._caught_up:
                self._send()
            if self._idle_after is not None:
                for lane in self._lanes.values():
                    lane.silent = lane.silent or self._header.now >= lane.active_at + self._idle_after
            self._combine()
        self._put_aside()

    def finish(self, ack: SubtaskAck) -> None:
        super().finish(ack)
        if self._lanes is None:
            return
        ack.parts = {name: self._state_of(lane) for name, lane in self._lanes.items()}
        if self._idle_after is not None and self._lanes:
            awake = [lane.active_at for lane in self._lanes.values() if not lane.silent]
            ack.next_timer = min(awake) + self._idle_after if awake else None

    # -- watermarks

    def _send(self) -> None:
        if self._lanes is None:
            super()._send()
            return
        if self._lane is not None:
            self._lane.highest = self._highest
        for lane in self._lanes.values():
            self._advance(lane)
        self._combine()

    def _advance(self, lane: Lane) -> None:
        """A watermark is due."""
        if lane.highest != MIN_WATERMARK:
            lane.watermark = max(lane.watermark, lane.highest - self._delay)

    def _combine(self) -> None:
        """Tell what all parts together mean."""
        assert self._lanes is not None
        awake = [lane.watermark for lane in self._lanes.values() if not lane.idle]
        if awake:
            lowest = min(awake)
            if lowest > self._sent or self._idle:
                self._sent = max(self._sent, lowest)
                self._idle = False
                self.output.control(self._sent)  # the same again moves nothing, but wakes the channel up
        elif not self._idle and self._holds_nobody_back():
            self._idle = True
            self.output.control(IDLE)

    def _holds_nobody_back(self) -> bool:
        if self._lanes or self._spare:
            return True
        # The source has no parts at all so far.
        assert self._active_at is not None
        return self._idle_after is not None and self._header.now >= self._active_at + self._idle_after

    # -- what is kept of a part

    def _take_out(self, lane: Lane) -> None:
        self._lane = lane
        self._highest = lane.highest

    def _put_aside(self) -> None:
        if self._lane is not None:
            self._lane.highest = self._highest
        self._lane = None
        self._highest = MIN_WATERMARK

    def _restored(self, state: PartState | None) -> Lane:
        lane = Lane(self._header.now)
        if state is not None:
            lane.watermark = state.watermark
            lane.highest, lane.active_at, lane.silent, lane.marked, fields = loads_own(state.own)
        self._set_fields(lane, None if state is None else fields)
        return lane

    def _state_of(self, lane: Lane) -> PartState:
        own = (lane.highest, lane.active_at, lane.silent, lane.marked, self._fields(lane))
        return PartState(lane.watermark, lane.idle, dumps(own))

    def _fields(self, lane: Lane) -> Any:
        return None

    def _set_fields(self, lane: Lane, fields: Any) -> None:
        pass


class GeneratedByPart(TimestampsByPart, GeneratedWatermarksOperator):
    """Asks a generator of the program, one for each part."""

    def _take_out(self, lane: Lane) -> None:
        super()._take_out(lane)
        self._generator = lane.generator

    def _advance(self, lane: Lane) -> None:
        try:
            lane.generator.on_periodic_emit(self._said)
        except Exception as error:
            raise UserCodeError(
                f"{self.node.name} (on_periodic_emit)", NO_RECORD, error, made_at=self.node.made_at
            ) from error
        self._hear(lane)

    def _emit(self, records: list[Any], times: Timestamps) -> None:
        if self._lanes is None:
            super()._emit(records, times)
        elif records:
            self.output.emit(records, times)
            if all(lane.idle for lane in self._lanes.values()):
                # Records wake their channel up; a generator says when its part counts again.
                self._idle = True
                self.output.control(IDLE)

    def _pass_on(self) -> None:
        if self._lanes is None:
            super()._pass_on()
        elif self._said.waiting:
            assert self._lane is not None
            self._hear(self._lane)
            self._combine()

    def _hear(self, lane: Lane) -> None:
        """Take what the generator of a part has said."""
        for what in self._said.waiting:
            if what == IDLE:
                lane.marked = True
            elif what == ACTIVE:
                lane.marked = False
            elif what > lane.watermark:
                lane.watermark = what
                lane.marked = False
        self._said.waiting.clear()

    # -- state

    def snapshot(self) -> Any:
        # In a source with parts the generator of the subtask itself is never asked.
        return super().snapshot() if self._lanes is None else TimestampsOperator.snapshot(self)

    def restore(self, own: Any) -> None:
        if isinstance(own[0], tuple):
            super().restore(own)
        else:
            TimestampsOperator.restore(self, own)

    def _fields(self, lane: Lane) -> Any:
        try:
            return freeze(lane.generator.__getstate__())
        except SerializationError as error:
            raise SerializationError(
                f"operator '{self.node.name}': the fields of {type(lane.generator).__name__} are state, and {error}"
            ) from error

    def _set_fields(self, lane: Lane, fields: Any) -> None:
        lane.generator = self._new_generator()
        if fields is not None:
            set_fields(lane.generator, thaw(fields))
