"""One Spark session for all tests that need one: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: at the end no process waits for the one that has the longest."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that Beadline makes by itself; every environment finds it as the active one."""
    from beadline.master.spark import find_session

    session = find_session()
    yield session
    session.stop()
