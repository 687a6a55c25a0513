"""Jobs that go on with another parallelism again and again, on Spark: their input, a stage, and what came out."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from beadline.common import Configuration, Encoder, Types
from beadline.datastream import DataStream, StreamExecutionEnvironment
from beadline.datastream.connectors.file_system import FileSink

PATIENCE = 120.0


class Slice(InputPartition):
    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first, self.end = first, end


class Numbers(DataSourceStreamReader):
    """Numbers up to an end, so many per step, in several partitions."""

    def __init__(self, step: int, parts: int, end: int = 0) -> None:
        self._step, self._parts, self._end = step, parts, end

    def end(self) -> int:
        return self._end

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"at": min(self.end(), start["at"] + self._step)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        first, last = start["at"], end["at"]
        cuts = [first + (last - first) * i // self._parts for i in range(self._parts + 1)]
        return [Slice(a, b) for a, b in pairwise(cuts)]

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        return ((number,) for number in range(partition.first, partition.end))


class Stage:
    """A job that starts from a snapshot. Its results go to files below ``folder``.

    :ivar records: how many came in so far
    """

    def __init__(self, folder: Path, backend: str, parallelism: int, max_parallelism: int, start: str | None) -> None:
        options = {
            "state.backend.type": backend,
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
            "pipeline.max-parallelism": str(max_parallelism),
        }
        if start is not None:
            options["execution.state-recovery.path"] = start
        self.env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
        self.env.set_parallelism(parallelism)
        self.env.add_step_listener(lambda report: self._add(report.records))
        self.records = 0
        self._folder = folder
        self._client: Any = None

    def _add(self, records: int) -> None:
        self.records += records

    def run(self, results: DataStream, records: int) -> None:
        """Start the job, and wait until it has taken that many records in."""
        texts = results.map(lambda r: pickle.dumps(r).hex(), output_type=Types.STRING()).uid("text")
        sink = FileSink.for_row_format(str(self._folder / "out"), Encoder.simple_string_encoder()).build()
        texts.sink_to(sink).uid("out")
        self._client = self.env.execute_async("a stage")
        self._wait_until(lambda: self.records >= records)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, "the job does not get on"
            assert not self._client.get_job_status().result().is_globally_terminal_state(), (
                self._client.get_exceptions()
            )
            time.sleep(0.02)

    def checkpoint(self) -> str:
        """Take a checkpoint, cancel the job and give the checkpoint's path."""
        path = str(self._client.trigger_checkpoint().result())
        self._client.cancel().result()
        return path

    def savepoint(self, drain: bool) -> str:
        """Stop the job with a savepoint, and give its path."""
        return str(self._client.stop_with_savepoint(drain, None).result())


def written(folder: Path) -> list[Any]:
    """The results of all stages."""
    lines = [line for path in (folder / "out").rglob("part-*") for line in path.read_text().split()]
    return [pickle.loads(bytes.fromhex(line)) for line in lines]
