"""The row formats: schemas that turn rows into bytes and back. PyFlink offers them in several places."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    f"{name}Row{direction}Schema": f"beadline.common._formats.{name.lower()}_rows"
    for name in ("Avro", "Csv", "Json")
    for direction in ("Deserialization", "Serialization")
}


def find_row_format(module: str, name: str) -> Any:
    """The class called ``name``.

    Schemas derive from classes of :mod:`beadline.common.serialization`, which offers them as well: so they are found
    only when they are used.

    :param module: the module that a program imports it from
    :raises AttributeError: if it is no row format's name
    """
    if name not in _MODULES:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
