from __future__ import annotations

from typing import Any

from beadline.common.utils import JavaObjectWrapper

__all__ = ["InputFormat"]


class InputFormat(JavaObjectWrapper):
    """Can't be made: an input format is a Java object. Use a source instead."""

    def __init__(self, j_input_format: Any) -> None:
        super().__init__(j_input_format)
