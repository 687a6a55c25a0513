"""Finds the modules that belong to the user's program: what it has imported, and what it would import later.

A program's functions may import modules when they are called, but the driver never calls them. So the imports of all of
the program's modules are read from their source, those inside functions too, and followed as Python would find them.
Nothing is imported for that.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import site
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path

# Never part of a program, wherever they are.
_NEVER = frozenset({"beadline", "pyflink", "pyspark", "py4j", "__main__", "__mp_main__"})
_MODULE_SUFFIXES = (".py", *EXTENSION_SUFFIXES)

# Data files are shipped up to this; modules always are.
_MOST_DATA = 64 << 20
_MOST_NAMED_FILES = 2000
_JUNK = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
_LONGEST_NAME = 200


@dataclass
class UserCode:
    """
    :ivar files: by their names in the archive that goes to the workers
    :ivar zips: archives on the path that modules were found in
    :ivar modules: the top-level names
    :ivar left_out: data files that would have made it too large
    """

    files: dict[str, Path] = field(default_factory=dict)
    zips: list[Path] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)
    left_out: list[Path] = field(default_factory=list)
    _data: int = 0

    def add(self, inside: str, file: Path) -> None:
        if inside in self.files:
            return
        if not file.name.endswith(_MODULE_SUFFIXES):
            size = file.stat().st_size
            if self._data + size > _MOST_DATA:
                self.left_out.append(file)
                return
            self._data += size
        self.files[inside] = file

    def about_left_out(self) -> str:
        size = sum(file.stat().st_size for file in self.left_out)
        shown = ", ".join(str(file) for file in self.left_out[:3])
        more = f" and {len(self.left_out) - 3} more" if len(self.left_out) > 3 else ""
        return (
            f"data files of the program's packages go to the workers up to {_MOST_DATA >> 20} MB; left out "
            f"({size >> 20} MB): {shown}{more}. If functions need them, ship them with env.register_cached_file() or "
            "env.add_python_archive()."
        )


def find_user_code(skip: frozenset[str] = frozenset()) -> UserCode:
    """What the program in this process consists of, without its script and the top-level modules to skip."""
    return _Search(skip).run()


def imported_user_modules() -> set[str]:
    """The top-level names of what has been imported and is not installed."""
    search = _Search(frozenset())
    return {name.partition(".")[0] for name in list(sys.modules) if search.is_users(name)}


def user_path() -> list[str]:
    """The folders and archives on the driver's path that are neither installed nor Spark's."""
    spark = os.environ.get("SPARK_HOME")
    found = []
    for entry in sys.path:
        path = os.path.abspath(entry)
        if is_installed(path) or not os.path.exists(path) or (spark and _is_below(os.path.realpath(path), spark)):
            continue
        if path not in found:
            found.append(path)
    return found


@lru_cache(maxsize=1 << 14)
def is_installed(path: str) -> bool:
    """Whether it is part of Python or was installed into it."""
    real = os.path.realpath(path)
    return any(_is_below(real, folder) for folder in _installed_folders())


@lru_cache(maxsize=1)
def _installed_folders() -> frozenset[str]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    zipped = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    folders.add(os.path.join(os.path.dirname(paths["stdlib"]), zipped))
    return frozenset(os.path.realpath(folder) for folder in folders)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


@dataclass(frozen=True)
class _Module:
    """Where a module is. A namespace package has folders and no file."""

    file: str | None
    folders: tuple[str, ...]

    @property
    def is_package(self) -> bool:
        return self.file is not None and bool(self.folders)


class _Search:
    def __init__(self, skip: frozenset[str]) -> None:
        self._code = UserCode()
        self._skip = skip | _NEVER
        self._located: dict[str, _Module | None] = {}
        self._waiting: list[str] = []
        self._seen: set[str] = set()

    def run(self) -> UserCode:
        self._read_script()
        # Sorted, so that two processes that imported the same in another order ship the same.
        for name in sorted(sys.modules):
            if self.is_users(name):
                self._note(name)
        while self._waiting:
            self._take(self._waiting.pop())
        return self._code

    def is_users(self, name: str) -> bool:
        """Whether a module that has been imported is the user's."""
        module = self._locate(name) if self._may_be_users(name) else None
        return module is not None and module.file is not None

    def _may_be_users(self, name: str) -> bool:
        return bool(name) and name.partition(".")[0] not in self._skip

    def _read_script(self) -> None:
        main = sys.modules["__main__"]
        file = getattr(main, "__file__", None)
        if file is None or is_installed(file) or not os.path.isfile(file):
            return
        spec = getattr(main, "__spec__", None)
        package = spec.parent if spec is not None else getattr(main, "__package__", None)
        self._follow(mentioned_in(file, package or ""))

    def _follow(self, mentioned: Mentioned) -> None:
        for name in mentioned.imports:
            while name:
                self._note(name)
                name = name.rpartition(".")[0]

    def _note(self, name: str) -> None:
        if name not in self._seen and self._may_be_users(name):
            self._seen.add(name)
            self._waiting.append(name)

    def _take(self, name: str) -> None:
        """Ship one module: with its package if it is in one, else with the files next to it that it names."""
        module = self._locate(name)
        if module is None:
            return
        self._code.modules.add(name.partition(".")[0])
        if module.file is None:
            return
        archive = _archive_with(module.file)
        if archive is not None:
            if archive not in self._code.zips:
                self._code.zips.append(archive)
            return
        file = Path(module.file)
        mentioned = mentioned_in(module.file, name if module.is_package else name.rpartition(".")[0])
        self._follow(mentioned)
        package, folder = self._package_of(name)
        if package is not None and folder is not None and _is_below(str(file), str(folder)):
            if f"{package}/__init__.py" not in self._code.files:
                self._add_folder(package, folder)
            return
        inside = name.replace(".", "/")
        if module.is_package:
            self._add_folder(inside, file.parent)
            return
        self._code.add(inside + file.name[file.name.index(".") :], file)
        for inner, data in _named_nearby(file, mentioned):
            self._code.add(os.path.join(os.path.dirname(inside), inner), data)

    def _package_of(self, name: str) -> tuple[str, Path] | tuple[None, None]:
        """The outermost package with an ``__init__.py`` that a module is in: its place in the archive and on disk."""
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            module = self._locate(".".join(parts[:end]))
            if module is not None and module.is_package:
                assert module.file is not None
                return "/".join(parts[:end]), Path(module.file).parent
        return None, None

    def _add_folder(self, inside: str, folder: Path) -> None:
        for inner, file in files_below(folder):
            self._code.add(f"{inside}/{inner}", file)

    def _locate(self, name: str) -> _Module | None:
        if name not in self._located:
            module = self._find(name)
            places = [module.file] if module is not None and module.file else list(module.folders) if module else []
            installed = not places or any(is_installed(place) for place in places)
            self._located[name] = None if installed else module
        return self._located[name]

    def _find(self, name: str) -> _Module | None:
        loaded = sys.modules.get(name)
        if loaded is not None:
            file = getattr(loaded, "__file__", None)
            folders = getattr(loaded, "__path__", None)
            return _module(file, folders)
        parent, _, _ = name.rpartition(".")
        spec: ModuleSpec | None
        try:
            if not parent:
                spec = importlib.util.find_spec(name)
            else:
                package = self._locate(parent)
                if package is None or not package.folders:
                    return None
                spec = PathFinder.find_spec(name, package.folders)
        except Exception:  # finders of other libraries may raise anything
            return None
        if spec is None:
            return None
        return _module(spec.origin if spec.has_location else None, spec.submodule_search_locations)


def _module(file: object, folders: Iterable[str] | None) -> _Module | None:
    try:
        inner = tuple(os.path.abspath(folder) for folder in folders) if folders is not None else ()
    except Exception:  # a module in name only, which answers every attribute
        return None
    if not isinstance(file, str):
        return _Module(None, inner) if inner else None
    # A module without source can't be read by another version of Python.
    return _Module(os.path.abspath(file), inner) if file.endswith(_MODULE_SUFFIXES) else None


def _archive_with(file: str) -> Path | None:
    """The archive on the path that a file is in, if it is in one."""
    if os.path.exists(file):
        return None
    for parent in Path(file).parents:
        if parent.is_file():
            return parent if zipfile.is_zipfile(parent) else None
    return None


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of a folder by their names in it. Caches, hidden files and virtual environments are left out."""
    seen = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        if real in seen or "pyvenv.cfg" in names:  # a link in a circle; a virtual environment
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if name not in _JUNK and not name.startswith("."))
        for name in sorted(names):
            file = Path(here) / name
            if not name.startswith(".") and not name.endswith((".pyc", ".pyo")) and file.is_file():
                yield str(file.relative_to(folder)), file


def _named_nearby(module: Path, mentioned: Mentioned) -> Iterator[tuple[str, Path]]:
    """Data files next to a module that its source names, for ``open(os.path.join(os.path.dirname(__file__), …))``."""
    for text in sorted(mentioned.names_of_files):
        inner = text.strip("/")
        if not inner or os.path.isabs(inner) or inner.startswith(".") or ".." in inner.split("/"):
            continue
        place = module.parent / inner
        try:
            if place.is_file() and not inner.endswith(_MODULE_SUFFIXES):
                yield inner, place
            elif place.is_dir() and not (place / "__init__.py").exists() and not (place / "pyvenv.cfg").exists():
                below = []
                for found in files_below(place):
                    below.append(found)
                    if len(below) > _MOST_NAMED_FILES:
                        break
                else:
                    for name, file in below:
                        yield f"{inner}/{name}", file
        except OSError:  # no name of a file at all
            continue


# -- what a module's source mentions


@dataclass(frozen=True)
class Mentioned:
    """
    :ivar imports: absolute names; of ``from a import b`` both ``a`` and ``a.b``, which may be a module or not
    :ivar names_of_files: texts in a module that asks for its own path; any of them may name a file next to it
    """

    imports: frozenset[str] = frozenset()
    names_of_files: frozenset[str] = frozenset()


def mentioned_in(file: str, package: str) -> Mentioned:
    """Read a source file of a package; one that can't be read or compiled mentions nothing."""
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
