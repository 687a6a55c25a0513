"""The job of the recovery tests, with its lines in a table: ``program.py FOLDER RECORDS PACE KIND``.

Where and how it is written is in the environment: ``BEADLINE_TEST_URL``, ``BEADLINE_TEST_TABLE``, and where it dies in
``BEADLINE_TEST_DIES``, see :data:`POINTS`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Any

from beadline.common import Row, Types
from beadline.common.outer_options import get_overrides
from beadline.connectors.postgres import AppendLog, PreparedTransactions, UpsertLog
from beadline.datastream.connectors.base import DeliveryGuarantee
from beadline.datastream.connectors.postgres import PostgresSink
from beadline.master.snapshots.sinks import Sinks
from tests.recovery.jobs import environment, lines_of

URL, TABLE, DIES = "BEADLINE_TEST_URL", "BEADLINE_TEST_TABLE", "BEADLINE_TEST_DIES"
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
}


def die_at(point: str) -> None:
    owner, name, when, calls = POINTS[point]
    original = getattr(owner, name)
    left, lock = calls, threading.Lock()

    def patched(self: Any, first: Any, *rest: Any, **more: Any) -> Any:
        nonlocal left
        with lock:
            left -= bool(first)
            now = left == 0
        if now and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(self, first, *rest, **more)
        if now:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, patched)


def sink_of(kind: str) -> PostgresSink:
    builder = PostgresSink.builder().set_url(os.environ[URL]).set_table(os.environ[TABLE])
    builder = builder.set_transactional_id_prefix(os.environ[TABLE])
    if kind == "upserts":
        builder = builder.set_keys("key")
    elif kind == "at least once":
        builder = builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    return builder.build()


def with_key(line: str) -> Row:
    return Row(int(line.split()[0]), line)


def main(folder: str, records: str, pace: str, kind: str) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    if DIES in os.environ:
        die_at(os.environ[DIES])
    env = environment(folder, get_overrides())
    lines = lines_of(env, int(records), folder, pace=float(pace))
    sink = sink_of(kind)
    lines.map(with_key, LINE).uid("with key").sink_to(sink).uid("table")
    print(env.get_execution_plan(), sink, sink._builder, flush=True)
    env.execute("recovery")
    print("the job has ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
