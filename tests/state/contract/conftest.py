"""Every test of this folder runs with every backend, and with every way that a step may come to its store."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beadline.state.backend_settings import RocksSettings
from tests.state.contract.subject import HEAP, ROCKSDB, Make, Subject, let_go


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is possible: what RocksDB waits for is mostly the disk."""
    path = tempfile.mkdtemp(prefix="beadline-contract-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    yield Path(path)
    let_go(Path(path))


WAYS = ["heap-kept", "heap-rebuilt", "rocksdb-kept", "rocksdb-moved", "rocksdb-rebuilt"]


@pytest.fixture(params=WAYS)
def make(request: pytest.FixtureRequest, folder: Path) -> Iterator[Make]:
    """Makes subjects; see :class:`tests.state.contract.subject.Subject` for the ways."""
    backend, way = request.param.split("-")
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    made: list[Subject] = []

    def one(*descriptors, **options) -> Subject:  # type: ignore[no-untyped-def]
        kind = HEAP if backend == "heap" else ROCKSDB
        options.setdefault("name", f"execution-{len(made)}")
        if way == "moved":  # workers share the database of a machine when it is large
            options.setdefault("rocks", RocksSettings(own_bytes=0))
        made.append(Subject(kind, way, folder, descriptors, **options))
        return made[-1]

    yield one
    for subject in made:
        subject.close()
