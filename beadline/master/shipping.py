"""What workers need of the user's program: its functions, the classes of its script, its own modules.

The script itself is never loaded in a worker (it might run the job again): its classes are shipped by value and set
on the worker's ``__main__``.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pickle
import shutil
import site
import sys
import sysconfig
import tempfile
import types
import zipfile
from pathlib import Path

import cloudpickle
import xxhash

import beadline
from beadline import pyflink_alias
from beadline.errors import SerializationError
from beadline.graph.plan import Plan, PlanNode
from beadline.master.spark import Cluster
from beadline.runtime.worker import Shipment
from beadline.state.codec import registered_state_classes


def make_shipment(plan: Plan) -> bytes:
    """The pickle that is broadcast once a run; errors name the operator that can't be pickled."""
    modules = job_modules(plan)
    shipment = Shipment(plan, main_classes(), modules, registered_state_classes(), pyflink_alias.is_installed())
    try:
        return bytes(cloudpickle.dumps(shipment, 5))
    except Exception as error:
        for node in plan.nodes.values():
            _check_node(node)
        raise SerializationError(f"the program can't be sent to the workers: {error}") from error


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
    """Top-level names of the modules that belong to the job: the script, and what it imported that is not installed."""
    names = {"__main__"}
    for module in list(sys.modules.values()):
        if _user_file(module) is not None:
            names.add(module.__name__.partition(".")[0])
    for node in plan.nodes.values():
        for function in node.spec.functions():
            names.add(type(function).__module__.partition(".")[0])
    return tuple(sorted(names - {"beadline"}))


_INSTALLED = tuple(
    os.path.realpath(path)
    for path in {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    if path and path != sys.prefix
)


def _user_file(module: types.ModuleType) -> str | None:
    """The file of a module that is neither installed nor part of Python nor of Beadline."""
    file: str | None = getattr(module, "__file__", None)
    name = getattr(module, "__name__", "")
    if not file or not name or name.partition(".")[0] in ("beadline", "__main__", "__mp_main__"):
        return None
    real: str = os.path.realpath(file)
    if real.startswith(_INSTALLED) or not real.endswith(".py"):
        return None
    spec = getattr(module, "__spec__", None)
    if spec is None or spec.origin is None:
        return None
    return real


def ship_modules(cluster: Cluster, extra: list[str]) -> None:
    """Send Beadline itself (unless the workers have it installed), the user's modules and added files to the
    executors."""
    package = Path(beadline.__file__).resolve().parent
    if not cluster.one_machine or not str(package).startswith(_INSTALLED):
        _add_zip(cluster, "beadline", [(package, "beadline")])
    for path in extra:
        cluster.add_file(path)
    own = _own_modules()
    if own:
        _add_zip(cluster, "job", own)


def _own_modules() -> list[tuple[Path, str]]:
    """The user's imported modules as (file or package folder, name in the archive)."""
    found: dict[str, Path] = {}
    for module in list(sys.modules.values()):
        file = _user_file(module)
        top = module.__name__.partition(".")[0]
        if file is None or top in found:
            continue
        spec = importlib.util.find_spec(top) if top in sys.modules else None
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        found[top] = origin.parent if origin.name == "__init__.py" else origin
    return [(path, path.name) for path in found.values() if path.name not in ("conftest.py", "tests")]


_shipped: set[tuple[str, str]] = set()


def _add_zip(cluster: Cluster, name: str, parts: list[tuple[Path, str]]) -> None:
    """Archive files and folders under a name made of their content, once a session."""
    files: list[tuple[Path, str]] = []
    for path, inside in parts:
        if path.is_dir():
            files += [(file, f"{inside}/{file.relative_to(path)}") for file in sorted(path.rglob("*.py"))]
        else:
            files.append((path, inside))
    digest = xxhash.xxh3_128()
    for file, inside in files:
        digest.update(inside.encode())
        digest.update(file.read_bytes())
    key = (cluster.context.applicationId, digest.hexdigest())
    if key in _shipped:
        return
    _shipped.add(key)
    folder = tempfile.mkdtemp(prefix="beadline-code-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors may ask for it as long as the driver lives
    archive = Path(folder) / f"{name}-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for file, inside in files:
            target.write(file, inside)
    cluster.add_file(str(archive))
    cluster.name_code(digest.hexdigest())
