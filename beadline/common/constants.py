"""Numbers and names that the whole package agrees on."""

from __future__ import annotations

#: The largest value that a Java ``long`` holds; the watermark that ends a bounded stream.
MAX_LONG_VALUE = 2**63 - 1

#: The smallest value that a Java ``long`` holds; the timestamp of a record that has none.
MIN_LONG_VALUE = -(2**63)

#: The tag of the main output, as opposed to the side outputs.
DEFAULT_OUTPUT_TAG = ""
