"""What a program asks to have in its workers: files, archives, packages."""

from __future__ import annotations

import os
import tarfile
import zipfile
from dataclasses import dataclass, field

from beadline.errors import ConfigurationError
from beadline.state.segments import files

ZIPPED = (".zip", ".jar", ".whl", ".egg")
_TARRED = (".tar.gz", ".tgz", ".tar")


@dataclass(frozen=True)
class PythonArchive:
    """An archive that is unpacked for the workers.

    :ivar target: its name in their working directory
    """

    path: str
    target: str

    @classmethod
    def checked(cls, path: str, target: str | None = None) -> PythonArchive:
        what = "add_python_archive()"
        path = local_file(path, what)
        if not is_archive(path):
            raise ConfigurationError(f"{what}: {path} is not an archive that ends in {_endings()}")
        target = os.path.basename(path) if target is None else target
        inner = os.path.normpath(target)
        if os.path.isabs(inner) or inner.split(os.sep)[0] in ("..", "."):
            raise ConfigurationError(
                f"{what}: the target directory {target!r} must be a relative path below the working directory"
            )
        return cls(path, inner)


@dataclass(frozen=True)
class Requirements:
    """Packages to install for the workers.

    :ivar packages: a folder with their files, instead of an index
    """

    file: str
    packages: str | None = None

    @classmethod
    def checked(cls, file: str, packages: str | None = None) -> Requirements:
        what = "set_python_requirements()"
        file = local_file(file, what)
        if packages is not None:
            packages = os.path.abspath(packages)
            if not os.path.isdir(packages):
                raise ConfigurationError(f"{what}: there is no folder {packages}")
        return cls(file, packages)


@dataclass(frozen=True)
class FileToCache:
    """A file or folder that functions ask for by its name."""

    path: str
    name: str
    executable: bool = False


@dataclass
class Dependencies:
    """
    :ivar python_files: modules, package folders and archives of them, the first found first
    """

    python_files: list[str] = field(default_factory=list)
    archives: list[PythonArchive] = field(default_factory=list)
    requirements: Requirements | None = None
    cached_files: list[FileToCache] = field(default_factory=list)

    def check(self) -> None:
        for what, names in (
            ("archives are to be unpacked as", [archive.target for archive in self.archives]),
            ("cached files are registered as", [file.name for file in self.cached_files]),
        ):
            for name in names:
                if names.count(name) > 1:
                    raise ConfigurationError(f"{names.count(name)} {what} {name!r}: each needs a name of its own")


def python_file(path: str) -> str:
    """The absolute path of a file or folder with modules."""
    what = "add_python_file()"
    path = local_path(path, what)
    if os.path.isfile(path) and not path.endswith(".py") and not (path.endswith(ZIPPED) and zipfile.is_zipfile(path)):
        raise ConfigurationError(
            f"{what}: {path} is not a folder, and not a module or archive of modules: these end in .py, "
            f"{', '.join(ZIPPED)}"
        )
    return path


def local_path(path: str, what: str) -> str:
    plain = files.local_path(path)
    if plain is None:
        raise ConfigurationError(f"{what}: {path} is not on this machine; give a local copy of it")
    plain = os.path.abspath(plain)
    if not os.path.exists(plain):
        raise ConfigurationError(f"{what}: there is no {plain}")
    return plain


def local_file(path: str, what: str) -> str:
    path = local_path(path, what)
    if not os.path.isfile(path):
        raise ConfigurationError(f"{what}: {path} is a folder, a file is needed")
    return path


def is_archive(path: str) -> bool:
    name = path.lower()
    if name.endswith(ZIPPED):
        return zipfile.is_zipfile(path)
    return name.endswith(_TARRED) and tarfile.is_tarfile(path)


def archive_ending(path: str) -> str:
    """The ending by which Spark knows how to unpack it."""
    name = path.lower()
    return ".zip" if name.endswith(ZIPPED) else next(ending for ending in _TARRED if name.endswith(ending))


def _endings() -> str:
    return ", ".join((*ZIPPED, *_TARRED))
