"""Record the public names and method signatures of an installed package as JSON.

Run it with the interpreter that has the package, and keep what it prints beside the test that compares with it::

    python tests/tools/record_api.py pyflink.common > tests/common/pyflink_common_api.json

For every module of the package the inventory has ``all`` (its ``__all__``, if there is one), ``classes`` (what the
module itself defines: bases, enum members, plain constants, methods), ``functions``, and ``names``: all that
``from module import name`` can serve and that is made by the same distribution, each with the module that made it. A
parameter is recorded as ``name``, ``name=<default>``, ``*name`` or ``**name``; annotations are left out. Modules that
can't be imported are listed under ``skipped`` with the reason.
"""

from __future__ import annotations

import argparse
import enum
import importlib
import inspect
import json
import pkgutil
import sys
import typing
from types import ModuleType
from typing import Any

COMPARED_DUNDERS = frozenset({"__init__", "__call__"})
PLAIN = (bool, int, float, str, type(None))


def parameters(function: Any) -> list[str]:
    """The parameters of ``function`` as short texts, with a bare ``*`` before the keyword-only ones."""
    texts: list[str] = []
    seen_star = False
    for parameter in inspect.signature(function).parameters.values():
        text = parameter.name
        if parameter.default is not inspect.Parameter.empty:
            text += f"={parameter.default!r}" if isinstance(parameter.default, PLAIN) else "=..."
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            text, seen_star = f"*{text}", True
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            text = f"**{text}"
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY and not seen_star:
            texts.append("*")
            seen_star = True
        texts.append(text)
    return texts


def describe_class(cls: type) -> dict[str, Any]:
    """What a caller can see of one class, its inherited methods included."""
    entry: dict[str, Any] = {"bases": [base.__name__ for base in cls.__bases__ if base is not object], "methods": {}}
    if issubclass(cls, enum.Enum):
        entry["members"] = {member.name: member.value for member in cls if isinstance(member.value, PLAIN)}
    constants: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    for name in sorted(dir(cls)):
        if name.startswith("_") and name not in COMPARED_DUNDERS:
            continue
        raw = inspect.getattr_static(cls, name)
        if isinstance(raw, (staticmethod, classmethod)):
            kind = "static" if isinstance(raw, staticmethod) else "class"
            entry["methods"][name] = {"kind": kind, "parameters": parameters(raw.__func__)}
        elif inspect.isfunction(raw):
            if owner_is_builtin(cls, name):
                continue
            entry["methods"][name] = {"kind": "instance", "parameters": parameters(raw)}
        elif isinstance(raw, property):
            entry["methods"][name] = {"kind": "property", "parameters": []}
        elif inspect.isclass(raw):
            nested[name] = describe_class(raw)
        elif isinstance(raw, PLAIN) and not issubclass(cls, enum.Enum):
            constants[name] = raw
    if constants:
        entry["constants"] = constants
    if nested:
        entry["classes"] = nested
    return entry


def owner_is_builtin(cls: type, name: str) -> bool:
    """Whether ``name`` comes from the standard library (``Enum.__init__`` and the like), not from the package."""
    owner = next(base for base in cls.__mro__ if name in vars(base))
    return owner.__module__.partition(".")[0] in sys.stdlib_module_names


def importable_names(module: ModuleType) -> dict[str, str]:
    """Public names of the module that its distribution made, and the module that each comes from."""
    root = module.__name__.partition(".")[0]
    origins = {
        name: getattr(value, "__module__", None) or module.__name__
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and not hasattr(typing, name)
    }
    # What is no class or function (a constant, a shared object) says nothing of its origin: it counts as the module's.
    plain = {name for name in origins if isinstance(vars(module)[name], PLAIN)}
    return {
        name: module.__name__ if name in plain else origin
        for name, origin in sorted(origins.items())
        if name in plain or origin.partition(".")[0] == root
    }


def describe_module(module: ModuleType) -> dict[str, Any]:
    """The public surface of one module."""
    entry: dict[str, Any] = {}
    names = importable_names(module)
    if names:
        entry["names"] = names
    if hasattr(module, "__all__"):
        entry["all"] = sorted(module.__all__)
    own = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    classes = {name: describe_class(value) for name, value in sorted(own.items()) if inspect.isclass(value)}
    functions = {name: parameters(value) for name, value in sorted(own.items()) if inspect.isfunction(value)}
    constants = {
        name: value
        for name, value in sorted(vars(module).items())
        if name.isupper() and not name.startswith("_") and isinstance(value, PLAIN)
    }
    for key, value in (("classes", classes), ("functions", functions), ("constants", constants)):
        if value:
            entry[key] = value
    return entry


def describe_package(name: str) -> dict[str, Any]:
    """The public surface of a package and of all its modules, tests left out."""
    package = importlib.import_module(name)
    modules = {name: describe_module(package)}
    skipped: dict[str, str] = {}
    for info in pkgutil.walk_packages(getattr(package, "__path__", []), prefix=f"{name}."):
        if any(part.startswith("_") or part == "tests" for part in info.name.split(".")):
            continue
        try:
            modules[info.name] = describe_module(importlib.import_module(info.name))
        except ImportError as error:
            skipped[info.name] = str(error)
    return {"package": name, "modules": modules, "skipped": skipped}


def main() -> None:
    """Print the inventory of the package named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("package", help="for example pyflink.common")
    arguments = parser.parse_args()
    json.dump(describe_package(arguments.package), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
