"""One driver for all tests of a module that ask a running job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.drivers import Driver


@pytest.fixture(scope="module")
def driver(local_engine: None) -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()
