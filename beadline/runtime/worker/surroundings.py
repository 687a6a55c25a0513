"""What a worker needs before it can unpickle the user's objects: the path, the names, the files of the program.

Unpickling a function imports the modules that it refers to. So what says where the modules are must not refer to them:
:class:`Surroundings` holds plain values only, and the user's part travels alongside as bytes. A worker first enters the
surroundings and then unpickles. Everything that carries user code to a worker goes as a :class:`Packed`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cloudpickle
import xxhash

import beadline
from beadline import pyflink_alias
from beadline.errors import ConfigurationError, EnvironmentSetupError


def _spark_files() -> Any:
    from pyspark import SparkFiles  # takes a while, and jobs without Spark do not need it

    return SparkFiles


def code_fingerprint() -> str:
    """A digest of the package's sources, in a folder or in an archive: driver and workers must run the same code, or
    they would send keys to different subtasks."""
    package = Path(beadline.__file__).parent
    digest = xxhash.xxh3_64()
    if package.is_dir():
        files = [(str(f.relative_to(package.parent)), f.read_bytes()) for f in package.rglob("*.py")]
    else:
        with zipfile.ZipFile(package.parent) as archive:
            names = [name for name in archive.namelist() if name.startswith("beadline/") and name.endswith(".py")]
            files = [(name, archive.read(name)) for name in names]
    for name, data in sorted(files):
        digest.update(name.encode())
        digest.update(data)
    return digest.hexdigest()


# Taken when the process starts, not when somebody asks: files may change on disk under a running process.
FINGERPRINT = code_fingerprint()


@dataclass(frozen=True)
class Unpacked:
    """Something in an archive that Spark has unpacked on the worker's machine.

    :ivar archive: its name among Spark's files; or the full path of what is there without Spark
    :ivar inside: a path in it; empty for all of it
    """

    archive: str
    inside: str = ""

    @property
    def path(self) -> str:
        root = self.archive if os.path.isabs(self.archive) else _spark_files().get(self.archive)
        return os.path.join(root, self.inside) if self.inside else root


@dataclass(frozen=True)
class CachedFile:
    """A file or folder that the program registered by name."""

    name: str
    place: Unpacked
    executable: bool = False


@dataclass(frozen=True)
class Surroundings:
    """
    :ivar pyflink_names: whether ``pyflink`` means Beadline
    :ivar first: what comes first on the path of modules
    :ivar last: what comes last on it
    :ivar last_folders: what comes after that: the driver's own folders, where the workers are on its machine
    :ivar links: names in the working directory, with the archives they stand for. Without any, the working directory is
        left alone.
    """

    pyflink_names: bool = False
    first: tuple[Unpacked, ...] = ()
    last: tuple[Unpacked, ...] = ()
    last_folders: tuple[str, ...] = ()
    links: tuple[tuple[str, Unpacked], ...] = ()
    cached_files: tuple[CachedFile, ...] = ()

    @cached_property
    def name(self) -> str:
        """Equal for equal content, since archives are named by it."""
        return xxhash.xxh3_128_hexdigest(repr(self).encode())

    def enter(self) -> None:
        """Let this process import the program's modules. It leaves surroundings that it entered before."""
        global _entered
        if _entered is not None:
            if _entered.surroundings == self:
                return
            _entered.leave()
        if self.pyflink_names:
            pyflink_alias.install()
        _entered = _Entered(self)

    def cached_file(self, name: str) -> str:
        """Where a registered file is on this machine."""
        for file in self.cached_files:
            if file.name == name:
                path = file.place.path
                if file.executable and os.path.isfile(path):
                    os.chmod(path, os.stat(path).st_mode | 0o111)
                return path
        known = ", ".join(sorted(file.name for file in self.cached_files)) or "none"
        raise ConfigurationError(
            f"no cached file is registered as {name!r}; the registered names are: {known}. Call "
            f"env.register_cached_file(path, {name!r}) before execute()."
        )


class _Entered:
    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self._folder = os.getcwd() if surroundings.links else None
        self._added: list[str] = []
        if surroundings.links:
            _link_in_working_directory(surroundings)
        self._add(0, [place.path for place in surroundings.first])
        self._add(len(sys.path), [place.path for place in surroundings.last])
        self._add(len(sys.path), [path for path in surroundings.last_folders if path not in sys.path])
        importlib.invalidate_caches()

    def _add(self, index: int, paths: Iterable[str]) -> None:
        added = list(paths)
        sys.path[index:index] = added
        self._added += added

    def leave(self) -> None:
        for path in self._added:
            with contextlib.suppress(ValueError):
                sys.path.remove(path)
        if self._folder is not None:
            os.chdir(self._folder)


_entered: _Entered | None = None


def current_surroundings() -> Surroundings:
    return _entered.surroundings if _entered is not None else Surroundings()


def _link_in_working_directory(surroundings: Surroundings) -> None:
    """Give each archive the name in the working directory that the program gave it. All workers of a machine may do it
    at once.

    An executor on a cluster has a working directory of its own. Spark's files are in it and known by relative paths, so
    it is kept. Workers on the driver's machine work in the user's folder otherwise, and get another one.
    """
    root = _spark_files().getRootDirectory()
    if os.path.isabs(root):
        folder = os.path.join(root, f"work-{surroundings.name[:16]}")
        os.makedirs(folder, exist_ok=True)
        os.chdir(folder)
    for target, place in surroundings.links:
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        try:
            os.symlink(place.path, target)
        except FileExistsError:
            if os.path.realpath(target) != os.path.realpath(place.path):
                raise EnvironmentSetupError(
                    f"an archive is to be unpacked as {target!r}, but there is something else of this name in the "
                    "executors' working directory, perhaps an archive of an earlier job of this session: choose "
                    "another target_dir, or start a new session"
                ) from None


@dataclass(frozen=True)
class Packed:
    """Something pickled that only a worker with these surroundings can unpickle."""

    surroundings: Surroundings
    data: bytes
    fingerprint: str = FINGERPRINT

    def open(self) -> Any:
        if self.fingerprint != FINGERPRINT:
            raise EnvironmentSetupError(
                f"the driver and this worker run different code of Beadline; the worker has {beadline.__version__} "
                f"from {beadline.__file__}: install the same version everywhere, or on the driver only"
            )
        self.surroundings.enter()
        return cloudpickle.loads(self.data)


def call_on_each(function: Packed, items: Iterable[bytes]) -> Iterator[Any]:
    call = function.open()
    for item in items:
        yield call(cloudpickle.loads(item))
