"""What a program asks to have in its workers: files, archives, packages."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import xxhash

from beadline.errors import ConfigurationError, EnvironmentSetupError
from beadline.master.spark import class_archive
from beadline.state.segments import files

ZIPPED = (".zip", ".jar", ".whl", ".egg")
_TARRED = (".tar.gz", ".tgz", ".tar")
_LOG = logging.getLogger("beadline")
_LINES_OF_PIP = 6


@dataclass(frozen=True)
class PythonArchive:
    """An archive that is unpacked for the workers, as ``target`` in their working directory."""

    path: str
    target: str

    @classmethod
    def checked(cls, path: str, target: str | None = None) -> PythonArchive:
        what = "add_python_archive()"
        path = local_file(path, what)
        if not is_archive(path):
            raise ConfigurationError(f"{what}: {path} is not an archive that ends in {', '.join((*ZIPPED, *_TARRED))}")
        target = os.path.basename(path) if target is None else target
        inner = os.path.normpath(target)
        if os.path.isabs(inner) or inner.split(os.sep)[0] in ("..", "."):
            raise ConfigurationError(
                f"{what}: the target directory {target!r} must be a relative path below the working directory"
            )
        return cls(path, inner)


@dataclass(frozen=True)
class Requirements:
    """Packages to install for the workers, from an index or the folder ``packages``."""

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
    """What a program asks for. Of ``python_files`` the first found comes first."""

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


def requirements_archive(requirements: Requirements) -> Path:
    """The archive of a requirements file's packages, for this version of Python; made if it is not there yet."""
    folder = class_archive.folder() / "requirements"
    kept = folder / f"{_digest(requirements)}.zip"
    if kept.exists():
        return kept
    _LOG.info("installing the job's requirements (%s) ...", requirements.file)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="installing-", dir=folder) as draft:
        packages = os.path.join(draft, "packages")
        _install(requirements, packages)
        made = os.path.join(draft, "packages.zip")
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
            for here, _, names in os.walk(packages):
                for name in sorted(names):
                    path = os.path.join(here, name)
                    if not name.endswith(".pyc"):
                        archive.write(path, os.path.relpath(path, packages))
            archive.writestr(".installed", requirements.file)  # an archive of nothing can't be unpacked
        with open(made, "rb") as stream:
            os.fsync(stream.fileno())
        os.replace(made, kept)  # of two that install at once, either is right
    return kept


def _install(requirements: Requirements, target: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--target", target, "-r", requirements.file]
    if requirements.packages is not None:
        command += ["--no-index", "--find-links", requirements.packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    said = "\n".join(f"  {line}" for line in errors[-_LINES_OF_PIP:])
    source = f"the files in {requirements.packages}" if requirements.packages is not None else "pip's package index"
    raise EnvironmentSetupError(
        f"the requirements in {requirements.file} could not be installed from {source} for {sys.executable}:\n{said}\n"
        "Without an index, download the packages with 'pip download -d FOLDER -r FILE' and give that folder as "
        "requirements_cache_dir."
    )


def _digest(requirements: Requirements) -> str:
    digest = xxhash.xxh3_128(f"{sys.version_info[:2]} {sysconfig.get_platform()}".encode())
    for file in _files(requirements.file, []):
        digest.update(file.read_bytes())
    if requirements.packages is not None:
        for package in sorted(Path(requirements.packages).iterdir()):
            if package.is_file():
                digest.update(package.name.encode())
                with package.open("rb") as stream:
                    while block := stream.read(1 << 20):
                        digest.update(block)
    return digest.hexdigest()


def _files(file: str, seen: list[Path]) -> list[Path]:
    """A requirements file, and those that it refers to."""
    path = Path(file)
    if path in seen or not path.is_file():
        return seen
    seen.append(path)
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        for option in ("-r", "--requirement", "-c", "--constraint"):
            if line.strip().startswith((option + " ", option + "=")):
                _files(str(path.parent / line.strip()[len(option) + 1 :].strip()), seen)
    return seen
