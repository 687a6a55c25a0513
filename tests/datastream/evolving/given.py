"""What the test gives the scripts."""

from __future__ import annotations

from beadline.testing import TestSource

options: dict[str, str]
source: TestSource
savepoints: str
format = "canonical"
#: Declare a type that nothing leads to.
refused = False
