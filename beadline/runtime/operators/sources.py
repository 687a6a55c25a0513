"""The source operator: reads the splits that the driver planned for its subtask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beadline.connectors.source import Unreadable, Watermark
from beadline.errors import InputError, StepError
from beadline.graph.specs import SourceSpec
from beadline.runtime.exchange.gate import MAX_WATERMARK
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.failure import NO_RECORD, UserCodeError
from beadline.runtime.messages import StepHeader, SubtaskInput
from beadline.runtime.operators.base import Operator
from beadline.runtime.task.poison import TAG, digest_of, sift
from beadline.state.store import Store


class SourceOperator(Operator[SourceSpec]):
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
        for split in self._start.splits:
            batches = self._batches(split)
            while (batch := next(batches, None)) is not None:
                if batch.__class__ is Unreadable:
                    self._unreadable(batch)
                    continue
                if batch.__class__ is Watermark:
                    self.output.control(batch.timestamp)
                    continue
                records, timestamps = batch if self.spec.source.timed else (batch, None)
                self.records_in += len(records)
                self._emit(records, timestamps)
                yield
        if self._start.ended:
            self.output.control(MAX_WATERMARK)

    def _batches(self, split: Any) -> Iterator[Any]:
        try:
            yield from self.spec.source.read_batches(split)
        except StepError:
            raise  # to be run again
        except InputError as error:
            raise UserCodeError(f"source {self.node.name}", NO_RECORD, error) from error
        except Exception as error:
            raise UserCodeError(f"source {self.node.name}", NO_RECORD, error, split) from error

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
