"""What Spark, or the connections between workers, might do to rows, and never should."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from beadline.master.spark import engine as spark_module
from beadline.master.spark.resident.engine import ResidentDeployment
from beadline.runtime.exchange.rows import ACK, BARRIER, DATA, DESCRIPTOR, WireRow, read_rows, write_rows
from beadline.runtime.task.entry import LevelCall
from beadline.runtime.task.task import Task
from tests.engine.jobs import KEYS, Accident

Tampering = Callable[[list[WireRow]], list[WireRow]]


def _first(rows: list[WireRow], kind: int) -> int:
    return next(position for position, row in enumerate(rows) if row.kind == kind)


def _lose(kind: int) -> Tampering:
    def lose(rows: list[WireRow]) -> list[WireRow]:
        position = _first(rows, kind)
        return rows[:position] + rows[position + 1 :]

    lose.of_acks = kind == ACK  # type: ignore[attr-defined]
    return lose


def _double(kind: int) -> Tampering:
    def double(rows: list[WireRow]) -> list[WireRow]:
        position = _first(rows, kind)
        return rows[: position + 1] + rows[position:]

    double.of_acks = kind == ACK  # type: ignore[attr-defined]
    return double


def _swap_chunks(rows: list[WireRow]) -> list[WireRow]:
    first = _first(rows, DATA)
    second = next(p for p, row in enumerate(rows) if p > first and row[:3] == rows[first][:3] and row.kind == DATA)
    rows[first], rows[second] = rows[second], rows[first]
    return rows


def _chunk_behind_barrier(rows: list[WireRow]) -> list[WireRow]:
    barrier = _first(rows, BARRIER)
    chunk = max(p for p, row in enumerate(rows) if row.kind == DATA and row.channel == rows[barrier].channel)
    rows[chunk], rows[barrier] = rows[barrier], rows[chunk]
    return rows


def _alter_record(rows: list[WireRow]) -> list[WireRow]:
    """Another number of the same key: nothing but the digest can tell."""
    position = _first(rows, DATA)
    elements = pickle.loads(rows[position].payload)
    elements[0][0][0] += KEYS
    return _with_payload(rows, position, elements)


def _alter_barrier(field: int, value: Any) -> Tampering:
    def alter(rows: list[WireRow]) -> list[WireRow]:
        position = _first(rows, BARRIER)
        payload = list(pickle.loads(rows[position].payload))
        payload[field] = value
        return _with_payload(rows, position, tuple(payload))

    return alter


def _with_payload(rows: list[WireRow], position: int, content: Any) -> list[WireRow]:
    rows[position] = rows[position]._replace(payload=pickle.dumps(content, 5))
    return rows


# By name: what happens to the rows, and what the check that finds it says.
TAMPERINGS: dict[str, tuple[Tampering, str]] = {
    "a chunk is lost": (_lose(DATA), "expected chunk 0, got 1"),
    "a barrier is lost": (_lose(BARRIER), "no barrier came through 1 channels"),
    "a descriptor is lost": (_lose(DESCRIPTOR), "got no descriptor"),
    "an acknowledgement is lost": (_lose(ACK), "1 of 2 tasks did not acknowledge"),
    "a chunk is doubled": (_double(DATA), "expected chunk 1, got 0"),
    "a barrier is doubled": (_double(BARRIER), "a second barrier came"),
    "a descriptor is doubled": (_double(DESCRIPTOR), "got two descriptors"),
    "an acknowledgement is doubled": (_double(ACK), "two acknowledgements of level 0, partition 0"),
    "two chunks are swapped": (_swap_chunks, "expected chunk 0, got 1"),
    "a chunk comes behind its barrier": (_chunk_behind_barrier, "the barrier says 3 chunks"),
    "a record is altered": (_alter_record, "the barrier says 3 chunks, 10000 records, digest"),
    "a count is altered": (_alter_barrier(0, 7), "the barrier says 3 chunks, 7 records"),
    "a channel's digest is altered": (_alter_barrier(1, "0"), "10000 records, digest 0;"),
    "a task's digest is altered": (_alter_barrier(4, "0"), "read another attempt of level 0, partition 0"),
}


def tamper(monkeypatch: pytest.MonkeyPatch, how: Tampering, step: int, marker: Path | None) -> None:
    """Let it happen to what level 1 reads in a step: once if there is a marker file to create, else every time."""
    _tamper_with_spark(monkeypatch, how, step, marker)
    make_member = ResidentDeployment._member

    def tampered_member(deployment: ResidentDeployment, invitation: Any) -> Any:
        return partial(_join_tampered, how, step, marker, make_member(deployment, invitation))

    monkeypatch.setattr(ResidentDeployment, "_member", tampered_member)


def _join_tampered(how: Tampering, step: int, marker: Path | None, join: Any, items: Any) -> Any:
    """In a resident worker, which is gone after the gang, or another's."""
    work = Task.work

    def happens(task: Task, level: int) -> bool:
        mine = task._level == level and task._header.step == step
        return mine and (marker is None or Accident(marker).happens())

    def tampered_work(task: Task, rows: Iterator[WireRow], given: Any) -> Iterator[list[WireRow]]:
        # Acknowledgements go to the driver, and not through level 1.
        acks = getattr(how, "of_acks", False)
        if not acks and happens(task, 1):
            rows = iter(how(list(rows)))
        for chunk in work(task, rows, given):
            if acks and any(row.kind == ACK for row in chunk) and happens(task, 0):
                chunk = how(chunk)
            yield chunk

    Task.work = tampered_work  # type: ignore[method-assign]
    try:
        return join(items)
    finally:
        Task.work = work  # type: ignore[method-assign]


def _tamper_with_spark(monkeypatch: pytest.MonkeyPatch, how: Tampering, step: int, marker: Path | None) -> None:
    make_function = spark_module._function

    def tampered_function(call: LevelCall) -> Any:
        function = make_function(call)
        if call.level != 1 or call.header.step != step:
            return function

        def level(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = list(read_rows(batches))
            if marker is None or Accident(marker).happens():
                rows = how(rows)
            return function(write_rows(iter([rows])))

        return level

    monkeypatch.setattr(spark_module, "_function", tampered_function)
