"""The source operator: reads the splits that the driver planned for its subtask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beadline.graph.specs import SourceSpec
from beadline.runtime.failure import NO_RECORD, UserCodeError
from beadline.runtime.gate import MAX_WATERMARK
from beadline.runtime.messages import StepHeader, SubtaskInput
from beadline.runtime.operators.base import Operator, Setup
from beadline.state.store import Store


class SourceOperator(Operator):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        spec = self.node.spec
        assert isinstance(spec, SourceSpec)
        self._source = spec.source
        self._timed = spec.source.timed
        self._start: SubtaskInput

    def _output_type(self) -> Any:
        spec = self.node.spec
        assert isinstance(spec, SourceSpec)
        return None if spec.typed else self.node.output_type

    def begin(self, header: StepHeader, start: SubtaskInput, store: Store | None) -> None:
        super().begin(header, start, store)
        self._start = start

    def start(self) -> Iterator[None]:
        for split in self._start.splits:
            batches = self._batches(split)
            while (batch := next(batches, None)) is not None:
                records, timestamps = batch if self._timed else (batch, None)
                self.records_in += len(records)
                self.output.emit(records, timestamps)
                yield
        if self._start.ended:
            self.output.watermark(MAX_WATERMARK)

    def _batches(self, split: Any) -> Iterator[Any]:
        try:
            yield from self._source.read_batches(split)
        except Exception as error:
            raise UserCodeError(f"source {self.node.name}", NO_RECORD, error) from error

    def records(self, input_index: int, records: list[Any], timestamps: Any, keys: Any) -> None:
        raise AssertionError("a source has no input")
