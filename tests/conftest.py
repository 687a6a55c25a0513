"""One Spark session for all tests that need one: it takes seconds to start."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.nightly import NIGHTLY
from tests.services import kafka as kafka
from tests.services import postgres as postgres
from tests.services import pytest_runtest_setup as pytest_runtest_setup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# How long an example takes says nothing here: the machine may have other things to do. What hangs meets the timeout.
settings.register_profile("beadline", deadline=None, max_examples=200 if NIGHTLY else 40)
settings.load_profile("beadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: at the end no process waits for the one that has the longest."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Databases of this process are closed before their folders go. Those that the garbage collector closes later, when
    it comes to them, try for seconds to write to a folder that is not there."""
    stores = sys.modules.get("beadline.state.rocks.store")
    for store in list(stores.RocksStore.open) if stores is not None else ():
        with contextlib.suppress(Exception):  # a test may have taken its folder away
            store._disconnect()


@pytest.fixture(scope="session", autouse=True)
def own_state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Jobs of tests register in a folder of their own, and not among those of whoever runs the tests. Programs that
    tests start find it too."""
    folder = tmp_path_factory.mktemp("state-directory")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEADLINE_STATE_DIR", str(folder))
        yield folder


class _Session:
    """The one Spark session of this process."""

    session: SparkSession | None = None
    has_spare_slots = False

    @classmethod
    def get(cls, spare_slots: bool) -> SparkSession:
        from beadline.master.spark.session import find_session
        from tests.sessions import DAEMON

        if cls.session is None or cls.has_spare_slots != spare_slots:
            cls.stop()
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf spark.python.daemon.module={DAEMON} pyspark-shell")
                cls.session, cls.has_spare_slots = find_session(spare_slots=spare_slots), spare_slots
        return cls.session

    @classmethod
    def stop(cls) -> None:
        if cls.session is not None:
            cls.session.stop()
            cls.session = None


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest) -> SparkSession:
    """The session that Beadline makes by itself; every environment finds it as the active one. A module with
    ``SPARE_SLOTS = True`` gets the one that Beadline makes for resident workers."""
    return _Session.get(getattr(request.module, "SPARE_SLOTS", False))


def pytest_sessionfinish() -> None:
    _Session.stop()


@pytest.fixture(scope="module")
def local_engine() -> Iterator[None]:
    """Jobs run in this process: for tests that prove nothing about Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BEADLINE_ENGINE", "local")
        yield


@pytest.fixture
def spark_engine(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """This test's jobs run on Spark, those of its module elsewhere."""
    monkeypatch.setenv("BEADLINE_ENGINE", "spark")


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> None:
    """Jobs run on Spark in tests that are marked so, else in this process."""
    request.getfixturevalue("spark_engine" if request.node.get_closest_marker("spark") else "local_engine")
