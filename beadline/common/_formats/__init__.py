"""The row formats: schemas that turn rows into bytes and back. PyFlink offers them in several places."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

from beadline.errors import UnsupportedFeatureError

_JSON = "beadline.common._formats.json_rows"
_MODULES = {
    f"{name}Row{direction}Schema": module
    for name, module in (("Avro", None), ("Csv", None), ("Json", _JSON))
    for direction in ("Deserialization", "Serialization")
}


def find_row_format(module: str, name: str) -> Any:
    """The class called ``name``; if Beadline lacks it, a class that says so when it is used.

    Schemas derive from classes of :mod:`beadline.common.serialization`, which offers them as well: so they are found
    only when they are used.

    :param module: the module that a program imports it from
    :raises AttributeError: if it is no row format's name
    """
    if name not in _MODULES:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    place = _MODULES[name]
    return _missing(name) if place is None else getattr(import_module(place), name)


def _missing(name: str) -> type:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedFeatureError(
            f"{name} is not available yet. Use SimpleStringSchema and parse in a map function."
        )

    return type(name, (), {"__init__": refuse, "builder": staticmethod(refuse), "Builder": staticmethod(refuse)})
