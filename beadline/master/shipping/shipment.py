"""What workers need of the user's program: its functions, the classes of its script, its own modules, its files.

The script itself is never loaded in a worker (it might run the job again): its classes are shipped by value and set
on the worker's ``__main__``. Modules and files go as archives named by their content, which Spark unpacks on every
machine: a module finds its data files next to it. Where they are is part of the :class:`Surroundings` that a worker
enters first.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import cloudpickle
import xxhash

import beadline
from beadline import pyflink_alias
from beadline.errors import ConfigurationError, SerializationError
from beadline.graph.plan import Plan, PlanNode
from beadline.master.shipping.dependencies import Dependencies, archive_ending
from beadline.master.shipping.requirements import requirements_archive
from beadline.master.shipping.user_code import (
    MOST_DATA,
    UserCode,
    files_below,
    find_user_code,
    imported_user_modules,
    is_installed,
    user_path,
)
from beadline.master.spark.session import Cluster
from beadline.runtime.surroundings import CachedFile, Packed, Place, Surroundings
from beadline.runtime.worker import Shipment
from beadline.state.codec import registered_state_classes

_LOG = logging.getLogger("beadline")

# Workers on the driver's machine find a test suite on the driver's path. Shipped, it would be other code, and need
# other workers, with every module of tests that is loaded.
_TESTS = frozenset({"tests", "conftest"})


# Of all jobs of this process, without those that were imported.
_added_modules: set[str] = set()


def make_shipment(plan: Plan, surroundings: Surroundings) -> Packed:
    """What is broadcast once a run; errors name the operator that can't be pickled."""
    if surroundings.links:
        _check_paths(plan)
    shipment = Shipment(plan, main_classes(), job_modules(plan), registered_state_classes())
    try:
        return Packed(surroundings, bytes(cloudpickle.dumps(shipment, 5)))
    except Exception as error:
        for node in plan.nodes.values():
            _check_node(node)
        raise SerializationError(f"the program can't be sent to the workers: {error}") from error


def _check_paths(plan: Plan) -> None:
    for node in plan.nodes.values():
        path = getattr(getattr(node.spec, "sink", None), "base_path", "/")
        if isinstance(path, str) and not os.path.isabs(path):
            raise ConfigurationError(
                f"sink '{node.name}' writes to the relative path {path!r}, but with add_python_archive() the workers "
                f"have a working directory of their own: give it as {os.path.abspath(path)}"
            )


def _check_node(node: PlanNode) -> None:
    functions = [("its function", node.spec)] + [("the key selector or partitioner behind it", e) for e in node.outputs]
    for what, part in functions:
        try:
            cloudpickle.dumps(part, 5)
        except Exception as error:
            raise SerializationError(
                f"operator '{node.name}' can't be sent to the workers: {what} holds something that can't be pickled "
                f"({type(error).__name__}: {error}). Create connections, locks and files in open() instead of in the "
                "constructor or as a captured variable."
            ) from error


def main_classes() -> dict[str, type]:
    """Classes that the script defines; one that can't be pickled is left out, nobody can have instances of it in
    flight."""
    found = {}
    for name, value in list(vars(sys.modules["__main__"]).items()):
        if isinstance(value, type) and value.__module__ == "__main__":
            try:
                cloudpickle.dumps(value, 5)
            except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
                continue
            found[name] = value
    return found


def job_modules(plan: Plan) -> tuple[str, ...]:
    """Top-level names of the modules that belong to the job: the script, what it imports that is not installed, and
    what it added by hand."""
    names = {"__main__", *imported_user_modules(), *_added_modules}
    for node in plan.nodes.values():
        for function in node.spec.functions():
            names.add(type(function).__module__.partition(".")[0])
    return tuple(sorted(names - {"beadline"}))


def ship_modules(cluster: Cluster, wanted: Dependencies | None = None) -> None:
    """Send Beadline itself (unless the workers have it installed), the user's modules and what the program asked for,
    and name these as the surroundings of the cluster's workers."""
    wanted = wanted or Dependencies()
    wanted.check()
    package = Path(beadline.__file__).resolve().parent
    if not cluster.one_machine or not is_installed(str(package)):
        modules = {f"beadline/{inner}": file for inner, file in files_below(package) if inner.endswith(".py")}
        cluster.add_python_file(str(_archive("beadline", modules)))
    _put_on_own_path(wanted.python_files)
    first, last = _ship_code(cluster), []
    for path in wanted.python_files:
        front, end = _ship_python_file(cluster, path)
        first += front
        last += end
    if wanted.requirements is not None:
        first.append(Place(cluster.add_archive(_linked("packages", str(requirements_archive(wanted.requirements))))))
    links = [(each.target, Place(cluster.add_archive(_linked("archive", each.path)))) for each in wanted.archives]
    cached = []
    for file in wanted.cached_files:
        base = os.path.basename(file.path)
        files = _as_files(base, file.path)
        place = Place(cluster.add_archive(_archive("cached", files, zipfile.ZIP_STORED)), base)
        cached.append(CachedFile(file.name, place, file.executable))
    cluster.surroundings = Surroundings(
        pyflink_alias.is_installed(),
        tuple(first),
        tuple(last),
        tuple(user_path()) if cluster.one_machine else (),
        tuple(links),
        tuple(cached),
    )


def _ship_code(cluster: Cluster) -> list[Place]:
    code = find_user_code(_TESTS if cluster.one_machine else frozenset())
    _added_modules.update(code.modules)
    if code.left_out:
        _LOG.warning("%s", _about_left_out(code))
    places = [Place(cluster.add_archive(_archive("code", code.files)))] if code.files else []
    return places + [Place(cluster.add_archive(_linked("code", str(path), ".zip"))) for path in code.zips]


def _about_left_out(code: UserCode) -> str:
    size = sum(file.stat().st_size for file in code.left_out)
    shown = ", ".join(str(file) for file in code.left_out[:3])
    more = f" and {len(code.left_out) - 3} more" if len(code.left_out) > 3 else ""
    return (
        f"data files of the program's packages go to the workers up to {MOST_DATA >> 20} MB; left out "
        f"({size >> 20} MB): {shown}{more}. If functions need them, ship them with env.register_cached_file() or "
        "env.add_python_archive()."
    )


def _put_on_own_path(paths: list[str]) -> None:
    """What the program adds can be imported in the driver too, if nothing else has the name."""
    for path in paths:
        inside = os.path.dirname(path) if path.endswith(".py") or _is_package(path) else path
        if inside not in sys.path:
            sys.path.append(inside)
        _added_modules.update(_top_names(path))


def _top_names(path: str) -> set[str]:
    if os.path.isdir(path):
        names = os.listdir(path)
        return {os.path.basename(path) if _is_package(path) else "", *(name.partition(".")[0] for name in names)} - {""}
    if path.endswith(".py"):
        return {os.path.basename(path).removesuffix(".py")}
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[0].partition(".")[0] for name in archive.namelist()} - {""}


def _is_package(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "__init__.py"))


def _ship_python_file(cluster: Cluster, path: str) -> tuple[list[Place], list[Place]]:
    """What comes first on the path and what comes last.

    If a folder is a package, it is imported by its name. Its modules are found by theirs as well, but last: they may
    have names of standard ones."""
    if os.path.isfile(path) and not path.endswith(".py"):
        return [Place(cluster.add_archive(_linked("files", path)))], []
    base = os.path.basename(path)
    name = cluster.add_archive(_archive("files", _as_files(base, path)))
    if os.path.isfile(path):
        return [Place(name)], []
    return ([Place(name)], [Place(name, base)]) if _is_package(path) else ([Place(name, base)], [])


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
    """An archive that is there already, under a name of its content."""
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
    """Where archives lie that executors may ask for, as long as the driver lives."""
    global _made_folder
    if _made_folder is None:
        _made_folder = Path(tempfile.mkdtemp(prefix="beadline-code-"))
        atexit.register(shutil.rmtree, _made_folder, ignore_errors=True)
    return _made_folder
