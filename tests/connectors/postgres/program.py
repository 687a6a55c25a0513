"""The job of the recovery tests, with its lines in a table: ``program.py FOLDER RECORDS PACE KIND``.

With the kind ``source`` its numbers come from another table, which somebody fills meanwhile, and it does not end.

Where and how it is written is in the environment: ``BEADLINE_TEST_URL``, ``BEADLINE_TEST_TABLE``, and where it dies or
stops in ``BEADLINE_TEST_DIES`` or ``BEADLINE_TEST_PAUSES``, see :data:`POINTS`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from beadline.common import Duration, Row, Types, WatermarkStrategy
from beadline.common.outer_options import get_overrides
from beadline.connectors.jdbc import StatementLog
from beadline.connectors.postgres import AppendLog, PreparedTransactions, UpsertLog
from beadline.datastream.connectors.base import DeliveryGuarantee
from beadline.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from beadline.datastream.connectors.postgres import PostgresSink, PostgresSource
from beadline.datastream.functions import KeyedProcessFunction, RuntimeContext
from beadline.datastream.state import ValueStateDescriptor
from beadline.master.snapshots.sinks import Sinks
from tests.recovery.jobs import KEYS, environment, lines_of

URL, TABLE, DIES = "BEADLINE_TEST_URL", "BEADLINE_TEST_TABLE", "BEADLINE_TEST_DIES"
PAUSES = "BEADLINE_TEST_PAUSES"
LINE = Types.ROW_NAMED(["key", "line"], [Types.INT(), Types.STRING()])

#: Which method it dies in, whether before or after, and in the how-manieth call.
POINTS: dict[str, tuple[type, str, str, int]] = {
    "before the pre-commit": (PreparedTransactions, "write", "before", 4),
    "after the pre-commit": (PreparedTransactions, "write", "after", 4),
    "before the commit": (PreparedTransactions, "commit", "before", 3),
    "in the middle of committing several": (PreparedTransactions, "commit", "after", 3),
    "after the commit": (Sinks, "publish", "after", 2),
    "before an upsert": (UpsertLog, "append", "before", 3),
    "in the middle of several upserts": (UpsertLog, "append", "after", 3),
    "after the upserts": (Sinks, "publish", "after", 2),
    "before rows are added": (AppendLog, "append", "before", 3),
    "after rows were added": (AppendLog, "append", "after", 3),
    "before statements are executed": (StatementLog, "append", "before", 3),
    "after statements were executed": (StatementLog, "append", "after", 3),
}


def signal_at(point: str, what: signal.Signals) -> None:
    """This process gets the signal at that point."""
    owner, name, when, calls = POINTS[point]
    original = getattr(owner, name)
    left, lock = calls, threading.Lock()

    def patched(self: Any, first: Any, *rest: Any, **more: Any) -> Any:
        nonlocal left
        with lock:
            left -= bool(first)
            now = left == 0
        if now and when == "before":
            os.kill(os.getpid(), what)
        result = original(self, first, *rest, **more)
        if now and when == "after":
            os.kill(os.getpid(), what)
        return result

    setattr(owner, name, patched)


def sink_of(kind: str) -> Any:
    if kind == "jdbc":
        return jdbc_sink()
    builder = PostgresSink.builder().set_url(os.environ[URL]).set_table(os.environ[TABLE])
    builder = builder.set_transactional_id_prefix(os.environ[TABLE])
    if kind == "upserts":
        builder = builder.set_keys("key")
    elif kind == "at least once":
        builder = builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    return builder.build()


def jdbc_sink() -> JdbcSink:
    url = os.environ[URL].replace("postgresql://postgres@", "jdbc:postgresql://")
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).with_user_name("postgres").build()
    return JdbcSink.sink(f"INSERT INTO {os.environ[TABLE]} (key, line) VALUES (?, ?)", LINE, options)


def lines_from_table(env: Any) -> Any:
    """Each number with how many of its key have come so far."""
    table = f"{os.environ[TABLE]}_in"
    source = PostgresSource.builder().set_url(os.environ[URL]).set_table(table).set_column("n")
    numbers = env.from_source(
        source.set_poll_interval(Duration.of_millis(50)).build(), WatermarkStrategy.no_watermarks(), "table"
    ).uid("numbers")
    return numbers.key_by(lambda row: row.n % KEYS, Types.LONG()).process(Count(), Types.STRING()).uid("count")


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self._count.update((self._count.value() or 0) + 1)
        yield f"{ctx.get_current_key()} {self._count.value()} {value.n}"


def with_key(line: str) -> Row:
    return Row(int(line.split()[0]), line)


def main(folder: str, records: str, pace: str, kind: str) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    for variable, what in ((DIES, signal.SIGKILL), (PAUSES, signal.SIGSTOP)):
        if variable in os.environ:
            signal_at(os.environ[variable], what)
    env = environment(folder, get_overrides())
    from_table = kind == "source"
    lines = lines_from_table(env) if from_table else lines_of(env, int(records), folder, pace=float(pace))
    sink = sink_of(kind)
    lines.map(with_key, LINE).uid("with key").add_sink(sink).uid("table")
    print(env.get_execution_plan(), sink, vars(sink), flush=True)
    env.execute("recovery")
    print("the job has ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
