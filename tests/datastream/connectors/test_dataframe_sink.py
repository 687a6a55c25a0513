"""Streams written by Spark: DataFrameSink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame

from beadline.common import Configuration, Row
from beadline.common.typeinfo import Types
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.spark import DataFrameSink
from beadline.errors import ConfigurationError, TypeMismatchError
from tests.connectors.transactions.test_user_sinks import FailsOnce

pytestmark = pytest.mark.spark

TYPE = Types.ROW_NAMED(["n", "text"], [Types.INT(), Types.STRING()])


def run(tmp_path: Path, sink: DataFrameSink, numbers: int = 300) -> None:
    configuration = Configuration()
    configuration.set_string("beadline.step.max-records", "50")
    configuration.set_string("restart-strategy.type", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.attempts", "5")
    configuration.set_string("restart-strategy.fixed-delay.delay", "1 ms")
    configuration.set_string("execution.checkpointing.interval", "100 ms")
    configuration.set_string("execution.checkpointing.dir", str(tmp_path / "checkpoints"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    stream = env.from_collection(list(range(numbers)), Types.INT()).map(FailsOnce(tmp_path), Types.INT())
    stream.map(lambda n: Row(n=n, text=str(n)), TYPE).sink_to(sink)
    env.execute()


@pytest.mark.slow
def test_each_checkpoint_is_a_dataframe_with_an_id(tmp_path: Path) -> None:
    def write(frame: DataFrame, checkpoint_id: int) -> None:
        rows = [row.asDict() for row in frame.collect()]
        (tmp_path / f"{checkpoint_id}.json").write_text(json.dumps(rows))

    run(tmp_path, DataFrameSink(write))
    found = [row for path in tmp_path.glob("*.json") for row in json.loads(path.read_text())]
    assert sorted(found, key=lambda row: row["n"]) == [{"n": n, "text": str(n)} for n in range(300)]


def test_a_delta_table_is_written_exactly_once(tmp_path: Path) -> None:
    """The call comes again after a failure in the middle of it, and the table knows the id."""
    table = str(tmp_path / "table")
    calls: list[int] = []

    def write(frame: DataFrame, checkpoint_id: int, writer: str) -> None:
        calls.append(checkpoint_id)
        known = -1
        if DeltaTable.is_deltatable(table):
            known = DeltaTable(table).transaction_version(writer) or -1
        if checkpoint_id > known:
            properties = CommitProperties(app_transactions=[Transaction(writer, checkpoint_id)])
            write_deltalake(table, frame.toArrow(), mode="append", commit_properties=properties)
        if len(calls) == 2:
            raise OSError("after the commit, before anybody knows")

    run(tmp_path, DataFrameSink(write))
    rows: Any = DeltaTable(table).to_pyarrow_table().to_pydict()
    assert sorted(rows["n"]) == list(range(300))
    assert len(calls) > len(set(calls)), "one came again"
    assert calls == sorted(calls)


def test_a_type_is_needed(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ConfigurationError, match="declared type"):
        env.from_collection([object()]).sink_to(DataFrameSink(print))
    with pytest.raises(TypeMismatchError, match="a function"):
        DataFrameSink("a table")  # type: ignore[arg-type]
