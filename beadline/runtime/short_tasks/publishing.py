"""Making output ready or visible: sinks may call user code, and rows may be objects of the program's classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from beadline.runtime.worker.classes import Classes
from beadline.state.disks import may_have_lost


@dataclass(frozen=True)
class LostFile:
    """What a call gives whose file the disk did not take. If it raised that, the engine might try it again, and the
    second try would find nothing wrong."""

    problem: str


def call_in_worker(classes: Classes, function: Callable[[Any], Any], item: Any) -> Any:
    classes.enter_too()
    try:
        return function(item)
    except OSError as error:
        if may_have_lost(error):
            return LostFile(str(error))
        raise
