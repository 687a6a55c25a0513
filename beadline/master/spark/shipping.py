"""Sends a program's modules and files to Spark's workers, as archives named by their content.

Spark unpacks them on every machine, so a module finds its data files next to it. Where they are is part of the
:class:`Surroundings` that a worker enters first.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

import beadline
from beadline import pyflink_alias
from beadline.errors import ConfigurationError
from beadline.master.shipping.dependencies import Dependencies, archive_ending, requirements_archive
from beadline.master.shipping.shipment import added_modules, is_package, put_on_own_path
from beadline.master.shipping.user_code import files_below, find_user_code, is_installed, user_path
from beadline.runtime.worker.surroundings import CachedFile, Surroundings, Unpacked

if TYPE_CHECKING:
    from beadline.master.spark.engine import SparkEngine

_LOG = logging.getLogger("beadline")

# Jobs that start at the same time make archives of the same names, and Spark takes a name once.
_one_at_a_time = threading.Lock()

# Workers on the driver's machine find a test suite on the driver's path. If it were shipped, each test module that is
# loaded would make other code, which needs other workers.
_TESTS = frozenset({"tests", "conftest"})


def ship_modules(engine: SparkEngine, wanted: Dependencies | None = None) -> None:
    """Send Beadline itself (unless the workers have it), the user's modules and what the program asked for."""
    with _one_at_a_time:
        _ship_modules(engine, wanted or Dependencies())


def _ship_modules(engine: SparkEngine, wanted: Dependencies) -> None:
    wanted.check()
    package = Path(beadline.__file__).resolve().parent
    if not engine.one_machine or not is_installed(str(package)):
        modules = {f"beadline/{inner}": file for inner, file in files_below(package) if inner.endswith(".py")}
        engine.add_python_file(str(_archive("beadline", modules)))
    put_on_own_path(wanted.python_files)
    first, last = _ship_code(engine), []
    for path in wanted.python_files:
        front, end = _ship_python_file(engine, path)
        first += front
        last += end
    if wanted.requirements is not None:
        first.append(Unpacked(engine.add_archive(_linked("packages", str(requirements_archive(wanted.requirements))))))
    links = [(each.target, Unpacked(engine.add_archive(_linked("archive", each.path)))) for each in wanted.archives]
    cached = []
    for file in wanted.cached_files:
        base = os.path.basename(file.path)
        files = _as_files(base, file.path)
        place = Unpacked(engine.add_archive(_archive("cached", files, zipfile.ZIP_STORED)), base)
        cached.append(CachedFile(file.name, place, file.executable))
    engine.surroundings = Surroundings(
        pyflink_alias.is_installed(),
        tuple(first),
        tuple(last),
        tuple(user_path()) if engine.one_machine else (),
        tuple(links),
        tuple(cached),
    )


def _ship_code(engine: SparkEngine) -> list[Unpacked]:
    code = find_user_code(_TESTS if engine.one_machine else frozenset())
    added_modules.update(code.modules)
    if code.left_out:
        _LOG.warning("%s", code.about_left_out())
    places = [Unpacked(engine.add_archive(_archive("code", code.files)))] if code.files else []
    return places + [Unpacked(engine.add_archive(_linked("code", str(path), ".zip"))) for path in code.zips]


def _ship_python_file(engine: SparkEngine, path: str) -> tuple[list[Unpacked], list[Unpacked]]:
    """What comes first on the path and what comes last: modules in a package, which may have names of standard ones."""
    if os.path.isfile(path) and not path.endswith(".py"):
        return [Unpacked(engine.add_archive(_linked("files", path)))], []
    base = os.path.basename(path)
    name = engine.add_archive(_archive("files", _as_files(base, path)))
    if os.path.isfile(path):
        return [Unpacked(name)], []
    return ([Unpacked(name)], [Unpacked(name, base)]) if is_package(path) else ([Unpacked(name, base)], [])


def _as_files(base: str, path: str) -> dict[str, Path]:
    if os.path.isfile(path):
        return {base: Path(path)}
    found = {f"{base}/{inner}": file for inner, file in files_below(Path(path))}
    if not found:
        raise ConfigurationError(f"there is nothing to ship in the folder {path}")
    return found


def _archive(kind: str, files: Mapping[str, Path], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """An archive of some files, named by their content."""
    digest = xxhash.xxh3_128()
    for inside, file in sorted(files.items()):
        digest.update(f"{inside}\0{file.stat().st_size}\0".encode(errors="surrogateescape"))
        _update(digest, file)
    path = _folder() / f"{kind}-{digest.hexdigest()}.zip"
    if not path.exists():
        with zipfile.ZipFile(path, "w", method, strict_timestamps=False) as archive:
            for inside, file in sorted(files.items()):
                archive.write(file, inside)
    return path


def _linked(kind: str, archive: str, ending: str | None = None) -> Path:
    """An existing archive, under a name made from its content."""
    digest = xxhash.xxh3_128()
    _update(digest, Path(archive))
    path = _folder() / f"{kind}-{digest.hexdigest()}{ending or archive_ending(archive)}"
    if not path.exists():
        try:
            os.link(archive, path)  # not a symbolic link: Spark would take the name that it leads to
        except OSError:
            shutil.copyfile(archive, path)
    return path


def _update(digest: xxhash.xxh3_128, file: Path) -> None:
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)


_made_folder: Path | None = None


def _folder() -> Path:
    """Where archives for the executors are, as long as the driver lives."""
    global _made_folder
    if _made_folder is None:
        _made_folder = Path(tempfile.mkdtemp(prefix="beadline-code-"))
        atexit.register(shutil.rmtree, _made_folder, ignore_errors=True)
    return _made_folder
