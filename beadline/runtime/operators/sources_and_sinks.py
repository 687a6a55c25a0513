"""Operators at both ends of the flow. In a step, those at its end only stage: what they took becomes visible when the
step is sealed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from beadline.connectors.source import Part, Unreadable, Watermark
from beadline.errors import InputError, StepError
from beadline.graph.specs import CollectSpec, PrintSpec, SinkSpec, SourceSpec
from beadline.runtime.exchange.gate import MAX_WATERMARK
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.failure import NO_RECORD, UserCodeError
from beadline.runtime.messages import StepHeader, SubtaskAck, SubtaskInput
from beadline.runtime.operators.base import Operator, Setup
from beadline.runtime.task.poison import TAG, digest_of, sift
from beadline.state.store import Store


class SourceOperator(Operator[SourceSpec]):
    """Reads the splits that the driver planned for its subtask."""

    _start: SubtaskInput

    def _output_type(self) -> Any:
        return None if self.spec.typed else self.node.output_type

    def begin(self, header: StepHeader, start: SubtaskInput, store: Store | None) -> None:
        super().begin(header, start, store)
        self._start = start
        self._poison: frozenset[str] = frozenset()
        self._to_side_output = False
        if header.poison is not None:
            self._poison = header.poison.records.get(self.node.id, frozenset())
            self._to_side_output = header.poison.to_side_output

    def start(self) -> Iterator[None]:
        source, splits = self.spec.source, self._start.splits
        readings = [(source.read_batches, split) for split in splits]
        if source.parted and splits:
            readings = [(source.read_parts, splits)]
        for read, what in readings:
            batches = self._batches(read, what)
            while (batch := next(batches, None)) is not None:
                if batch.__class__ is Unreadable:
                    self._unreadable(batch)
                    continue
                if batch.__class__ is Watermark:
                    self.output.control(batch.timestamp)
                    continue
                if batch.__class__ is Part:
                    self.output.part(batch.name)
                    continue
                records, timestamps = batch if source.timed else (batch, None)
                self.records_in += len(records)
                self._emit(records, timestamps)
                yield
        if self._start.ended:
            self.output.control(MAX_WATERMARK)

    def _batches(self, read: Callable[[Any], Iterator[Any]], split: Any) -> Iterator[Any]:
        try:
            yield from read(split)
        except StepError:
            raise  # to be run again
        except InputError as error:
            raise UserCodeError(f"source {self.node.name}", NO_RECORD, error, made_at=self.node.made_at) from error
        except Exception as error:
            raise UserCodeError(
                f"source {self.node.name}", NO_RECORD, error, split, made_at=self.node.made_at
            ) from error

    def _emit(self, records: list[Any], timestamps: Timestamps) -> None:
        """Send records on, except those that the output's type has refused too often."""
        if self._poison:
            good = sift(self, records, timestamps, self._poison, self._to_side_output)
            if len(good) < len(records):
                records = [records[i] for i in good]
                timestamps = None if timestamps is None else [timestamps[i] for i in good]
        self.output.emit(records, timestamps)

    def _unreadable(self, record: Unreadable) -> None:
        """Fail, or leave the record out if it has failed often enough."""
        self.records_in += 1
        if digest_of(record) not in self._poison:
            raise UserCodeError(self.node, record, record.problem)
        if self._to_side_output:
            self.output.emit_side(TAG, [record.data], None)

    def records(self, input_index: int, records: list[Any], timestamps: Any, keys: Any) -> None:
        raise AssertionError("a source has no input")


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
