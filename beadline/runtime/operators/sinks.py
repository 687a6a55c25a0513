"""Operators at the end of the flow. In a step they only stage: what they took becomes visible when the step is
sealed."""

from __future__ import annotations

from typing import Any

from beadline.graph.specs import CollectSpec, PrintSpec, SinkSpec
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.failure import NO_RECORD, UserCodeError
from beadline.runtime.messages import StepHeader, SubtaskAck, SubtaskInput
from beadline.runtime.operators.base import Operator, Setup
from beadline.state.store import Store


class PrintOperator(Operator[PrintSpec]):
    """Lines travel in the acknowledgement; the driver prints them in order."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._format = self.spec.type_info.formatter()
        prefix = self.spec.identifier or ""
        if self.node.parallelism > 1:
            prefix += f":{self.subtask + 1}" if prefix else str(self.subtask + 1)
        self._prefix = f"{prefix}> " if prefix else ""

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self.records_in += len(records)
        prefix, to_text = self._prefix, self._format
        record = None
        lines: list[str] = []
        try:
            for record in records:
                lines.append(prefix + to_text(record))
        except Exception as error:
            raise UserCodeError(self.node, record, error) from error
        self.printed.lines(lines)


class CollectOperator(Operator[CollectSpec]):
    """Records travel in the acknowledgement to the program that waits for them."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._collected: list[Any] = []

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self.records_in += len(records)
        self._collected.extend(records)

    def finish(self, ack: SubtaskAck) -> None:
        super().finish(ack)
        ack.collected, self._collected = self._collected, []


class SinkOperator(Operator[SinkSpec]):
    """Hands records to a sink's stager, which writes them where nobody sees them yet."""

    _stager: Any

    def begin(self, header: StepHeader, start: SubtaskInput, store: Store | None) -> None:
        super().begin(header, start, store)
        self._stager = self.spec.sink.stager(self.subtask, header.step, header.now)

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self.records_in += len(records)
        try:
            self._stager.write(records, timestamps)
        except Exception as error:
            raise UserCodeError(self.node, self._refused(records, timestamps), error) from error

    def _refused(self, records: list[Any], timestamps: Timestamps) -> Any:
        """The record that the sink refuses, found by writing one record at a time: what is staged no longer counts."""
        for position, record in enumerate(records):
            times = None if timestamps is None else [timestamps[position]]
            try:
                self.spec.sink.stager(self.subtask, self._header.step, self._header.now).write([record], times)
            except Exception:
                return record
        return NO_RECORD

    def finish(self, ack: SubtaskAck) -> None:
        super().finish(ack)
        ack.staged = self._stager.finish()
