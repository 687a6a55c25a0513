"""A sink that a test can ask what was committed.

Records are pickled into files that appear when they are committed, through the same staging, naming and publishing as
those of a file sink. Each carries the step it was written in, so that they can be brought into their order again.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from beadline.common.typeinfo import TypeInformation
from beadline.connectors.files import RollingPolicy, RowFileSink
from beadline.connectors.sink import StagedSink, Stager
from beadline.datastream.connectors.base import Sink
from beadline.state.codec import dumps

_SUFFIX = ".records"
_LENGTH = 4
_SHOWN = 5


class VerifyingSink(Sink):
    """Gathers committed records: ``stream.sink_to(sink)``, run the job, then ``sink.assert_exactly([…])``.

    With checkpoints in exactly-once mode records appear when a checkpoint has completed, otherwise when their step is
    sealed.

    :param folder: where records are kept, reached by all workers; a temporary one if left out
    """

    def __init__(self, folder: str | None = None) -> None:
        if folder is None:
            folder = tempfile.mkdtemp(prefix="beadline-sink-")
            weakref.finalize(self, shutil.rmtree, folder, True)
        self.folder = os.path.abspath(folder)

    def __repr__(self) -> str:
        return f"<VerifyingSink: {len(self.read())} records in {self.folder}>"

    def _make_sink(self, type_info: TypeInformation) -> StagedSink:
        # A part is full at once: it is published whenever the engine asks for what is complete.
        return _RecordFiles(self.folder, dumps, _no_bucket, RollingPolicy(rollover_ms=0), suffix=_SUFFIX)

    # -- what is there

    def read(self) -> list[Any]:
        """The committed records: by step, then by subtask, then in the order in which the sink got them."""
        found = []
        for subtask, path in self._parts():
            with open(path, "rb") as stream:
                data = stream.read()
            found += [(step, subtask, record) for step, record in _decoded(data, path)]
        found.sort(key=lambda entry: entry[:2])  # stable: parts and their rows are in order already
        return [record for _, _, record in found]

    def _parts(self) -> list[tuple[int, str]]:
        """Subtask and path of the visible files, in the order in which they were written."""
        parts = []
        for name in os.listdir(self.folder) if os.path.isdir(self.folder) else ():
            if name.endswith(_SUFFIX) and not name.startswith("."):
                subtask, counter = map(int, name.removesuffix(_SUFFIX).rsplit("-", 2)[1:])
                parts.append((subtask, counter, os.path.join(self.folder, name)))
        return [(subtask, path) for subtask, _, path in sorted(parts)]

    def wait_for(self, count: int, timeout: float = 60.0) -> list[Any]:
        """Wait until at least so many records are committed, and give all there are. For jobs that don't end."""
        end = time.monotonic() + timeout
        while len(found := self.read()) < count:
            if time.monotonic() > end:
                raise AssertionError(f"{len(found)} of {count} records were committed within {timeout} s")
            time.sleep(0.05)
        return found

    # -- what should be there

    def assert_exactly(self, expected: Iterable[Any]) -> None:
        """Each expected record was committed as often as it is expected, and nothing else, in whatever order."""
        found = self.read()
        missing, surplus = _difference(found, list(expected))
        if missing or surplus:
            told = [f"{len(found)} records are committed."]
            told += [f"Missing: {_some(missing)}."] if missing else []
            told += [f"Not expected, or not so often: {_some(surplus)}."] if surplus else []
            raise AssertionError(" ".join(told))

    def assert_in_order(self, key: Callable[[Any], Any], by: Callable[[Any], Any]) -> None:
        """Among the records of each key, ``by`` grows from one to the next: nothing is out of order or twice."""
        latest: dict[Any, Any] = {}
        for record in self.read():
            own = key(record)
            if own in latest and not by(latest[own]) < by(record):
                raise AssertionError(f"of key {own!r}, {record!r} comes behind {latest[own]!r}")
            latest[own] = record


@dataclass
class _RecordFiles(RowFileSink):
    """Files of records that know their step."""

    def stager(self, subtask: int, step: int, now: int) -> Stager:
        return RowFileSink.stager(replace(self, encode=partial(_encoded, step)), subtask, step, now)


def _no_bucket(record: Any, now: int) -> str:
    return ""


def _encoded(step: int, record: Any) -> bytes:
    data = dumps((step, record))
    return len(data).to_bytes(_LENGTH, "big") + data


def _decoded(data: bytes, path: str) -> Iterator[tuple[int, Any]]:
    offset = 0
    while offset < len(data):
        start = offset + _LENGTH
        offset = start + int.from_bytes(data[offset:start], "big")
        if offset > len(data):
            raise AssertionError(f"{path} is cut short: a record was made visible that is not complete")
        yield pickle.loads(data[start:offset])


def _difference(found: list[Any], expected: list[Any]) -> tuple[list[Any], list[Any]]:
    """What is expected and not found, and what is found and not expected, each as often as it is."""
    try:
        have, want = Counter(found), Counter(expected)
        return list((want - have).elements()), list((have - want).elements())
    except TypeError:  # lists and the like, which no dictionary takes
        surplus, missing = list(found), []
        for record in expected:
            if record in surplus:
                surplus.remove(record)
            else:
                missing.append(record)
        return missing, surplus


def _some(records: list[Any]) -> str:
    text = ", ".join(map(repr, records[:_SHOWN]))
    return text if len(records) <= _SHOWN else f"{text} and {len(records) - _SHOWN} more"
