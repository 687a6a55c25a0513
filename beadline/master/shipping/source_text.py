"""What a module's source mentions: the modules it imports, at the top or in functions, and names that may be files'."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from functools import lru_cache

_LONGEST_NAME = 200


@dataclass(frozen=True)
class Mentioned:
    """
    :ivar imports: absolute names; of ``from a import b`` both ``a`` and ``a.b``, which may be a module or not
    :ivar names_of_files: texts in a module that asks for its own path; any of them may name a file next to it
    """

    imports: frozenset[str] = frozenset()
    names_of_files: frozenset[str] = frozenset()


def mentioned_in(file: str, package: str) -> Mentioned:
    """Read a source file; one that can't be read or compiled mentions nothing.

    :param package: what relative imports start from
    """
    if not file.endswith(".py"):
        return Mentioned()
    try:
        status = os.stat(file)
    except OSError:
        return Mentioned()
    return _read(file, package, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1024)
def _read(file: str, package: str, _changed: int, _size: int) -> Mentioned:
    try:
        with open(file, "rb") as stream:
            tree = ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return Mentioned()
    imports: set[str] = set()
    texts: set[str] = set()
    asks_where = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            if base is not None:
                imports.add(base)
                imports.update(f"{base}.{alias.name}" for alias in node.names if alias.name != "*")
        elif isinstance(node, ast.Call):
            imports.update(_imported_by_call(node, package))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and 0 < len(node.value) < _LONGEST_NAME and "\n" not in node.value:
                texts.add(node.value)
        elif isinstance(node, ast.Name):
            asks_where = asks_where or node.id == "__file__"
        elif isinstance(node, ast.Attribute):
            asks_where = asks_where or node.attr in ("getfile", "get_data", "files", "__file__")
    return Mentioned(frozenset(imports), frozenset(texts) if asks_where else frozenset())


def _base(node: ast.ImportFrom, package: str) -> str | None:
    if node.level == 0:
        return node.module
    parts = package.split(".") if package else []
    if node.level > len(parts):
        return None
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def _imported_by_call(node: ast.Call, package: str) -> list[str]:
    """``importlib.import_module("a.b")`` and ``__import__("a")``, where the name is written there."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called not in ("import_module", "__import__") or not node.args:
        return []
    name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
    if not isinstance(name, str):
        return []
    relative = name.lstrip(".")
    if relative == name:
        return [name]
    base = _base(ast.ImportFrom(module=relative or None, names=[], level=len(name) - len(relative)), package)
    return [base] if base else []
