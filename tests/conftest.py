"""One Spark session for all tests that need one: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that Beadline makes by itself; every environment finds it as the active one."""
    from beadline.master.spark import find_session

    session = find_session()
    yield session
    session.stop()
