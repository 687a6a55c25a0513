"""Making output ready or visible: sinks may call user code, and rows may be objects of the program's classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from beadline.runtime.worker.worker import set_main_classes
from beadline.state import codec


@dataclass(frozen=True)
class Classes:
    """The classes that staged rows may hold: see :class:`~beadline.runtime.worker.worker.Shipment`."""

    main_classes: dict[str, type] = field(default_factory=dict)
    job_modules: tuple[str, ...] = ()
    registered: frozenset[tuple[str, str]] = frozenset()

    def trust(self) -> None:
        codec.trust(self.job_modules, self.registered)


def call_in_worker(classes: Classes, function: Callable[[Any], Any], item: Any) -> Any:
    set_main_classes(classes.main_classes)
    classes.trust()
    return function(item)
