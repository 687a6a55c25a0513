"""Making output ready or visible: sinks may call user code, and rows may be objects of the program's classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beadline.runtime.worker.classes import Classes


def call_in_worker(classes: Classes, function: Callable[[Any], Any], item: Any) -> Any:
    classes.enter_too()
    return function(item)
