"""Nothing grows: what a step ships is small whatever functions capture, and many steps leave nothing behind."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from beadline.datastream import KeyedProcessFunction
from beadline.master.spark import engine as master_spark

from .jobs import collect, environment


def test_closures_stay_small_whatever_functions_capture(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    make = master_spark._function

    def measured(call: Any) -> Any:
        function = make(call)
        sizes.append(len(cloudpickle.dumps(function)))
        return function

    monkeypatch.setattr(master_spark, "_function", measured)
    ballast = os.urandom(5 << 20)
    env = environment(2, step_records=500)
    stream = env.from_sequence(1, 5000).map(lambda v: v + len(ballast)).key_by(lambda v: v % 200)
    assert len(collect(stream.reduce(lambda a, b: a + b + 0 * len(ballast)))) == 5000
    assert len(sizes) >= 20
    assert max(sizes) < 100_000


class Remembers(KeyedProcessFunction):
    """Keeps a long text for every key, so that deltas pile up."""

    def open(self, runtime_context: Any) -> None:
        from beadline.common import Types
        from beadline.datastream.state import ValueStateDescriptor

        self.text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.text.update(str(value) * 50)
        return ()


def test_segments_are_merged_and_their_files_deleted(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 steps over 400 keys: the state's size on disk stays near that of the keys, not of all that was written."""
    scratch = tempfile.mkdtemp()
    monkeypatch.setattr(tempfile, "tempdir", scratch)
    env = environment(2, step_records=100)
    sizes: list[int] = []
    files: list[int] = []

    def listen(report: Any) -> None:
        sizes.append(report.state_bytes)
        files.append(sum(len(names) for _, _, names in os.walk(scratch)))

    env.add_step_listener(listen)
    env.from_sequence(1, 6_000).key_by(lambda n: n % 400).process(Remembers()).print()
    env.execute()
    assert len(sizes) == 60
    first_full = sizes[3]
    assert max(sizes[30:]) < 8 * first_full, sizes
    assert max(files[30:]) <= max(files[:30]) + 4, files
    assert not any(Path(scratch).rglob("*.run"))
    assert not any(Path(scratch).rglob("*.pack"))
