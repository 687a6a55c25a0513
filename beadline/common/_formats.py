"""The row formats that PyFlink also offers under ``pyflink.common``, found when somebody asks for them.

They live among the connectors, which are above this package, so they are looked up by name and not imported here.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any, NoReturn

from beadline.errors import UnsupportedFeatureError

_MODULES = {
    f"{name}Row{direction}Schema": f"beadline.datastream.formats.{name.lower()}"
    for name in ("Avro", "Csv", "Json")
    for direction in ("Deserialization", "Serialization")
}


def find_row_format(name: str) -> Any:
    """The class called ``name``; one that says what is missing when it is used, if there is none.

    :raises AttributeError: if it is no row format's name
    """
    if name not in _MODULES:
        raise AttributeError(f"module 'beadline.common' has no attribute {name!r}")
    if _exists(_MODULES[name]):
        return getattr(importlib.import_module(_MODULES[name]), name)
    return _missing(name)


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its package is missing too
        return False


def _missing(name: str) -> type:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedFeatureError(
            f"{name} is not available yet. Use SimpleStringSchema and parse in a map function."
        )

    return type(name, (), {"__init__": refuse, "builder": staticmethod(refuse), "Builder": staticmethod(refuse)})
