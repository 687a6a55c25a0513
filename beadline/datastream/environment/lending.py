"""Modules that also offer names of other modules, because PyFlink's modules do and programs import them from there."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def lends(module: str, *places: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for ``module`` that looks a public name up in other modules, when it is used.

    It is for modules that the others import; where there is no circle, a plain import is enough.
    """

    def find(name: str) -> Any:
        if not name.startswith("_"):
            for place in places:
                found = importlib.import_module(place)
                if name in vars(found):
                    return vars(found)[name]
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
