"""What workers need of the user's program, pickled: its functions and the classes of its script.

The script itself is never loaded in a worker (it might run the job again): its classes are shipped by value and set
on the worker's ``__main__``.
"""

from __future__ import annotations

import os
import pickle
import sys
import zipfile

import cloudpickle

from beadline.errors import ConfigurationError, SerializationError
from beadline.graph.plan import Plan, PlanNode
from beadline.master.shipping.user_code import imported_user_modules
from beadline.runtime.worker.classes import Classes
from beadline.runtime.worker.surroundings import Packed, Surroundings
from beadline.runtime.worker.worker import Shipment
from beadline.state.codec import registered_state_classes

# Of all jobs of this process, without those that were imported.
added_modules: set[str] = set()


def make_shipment(plan: Plan, surroundings: Surroundings) -> Packed:
    """What is broadcast once per run; errors name the operator that can't be pickled."""
    if surroundings.links:
        _check_paths(plan)
    shipment = Shipment(plan, classes_of(plan))
    try:
        return Packed(surroundings, bytes(cloudpickle.dumps(shipment, 5)))
    except Exception as error:
        for node in plan.nodes.values():
            _check_node(node)
        raise SerializationError(f"the program can't be sent to the workers: {error}") from error


def classes_of(plan: Plan) -> Classes:
    """What state and staged output may hold."""
    return Classes(main_classes(), job_modules(plan), registered_state_classes())


def _check_paths(plan: Plan) -> None:
    for node in plan.nodes.values():
        path = getattr(getattr(node.spec, "sink", None), "base_path", "/")
        if isinstance(path, str) and not os.path.isabs(path):
            raise ConfigurationError(
                f"sink '{node.name}' writes to the relative path {path!r}, but with add_python_archive() the workers "
                f"have a working directory of their own: give it as {os.path.abspath(path)}"
            )


def _check_node(node: PlanNode) -> None:
    functions = [("its function", node.spec)] + [("the key selector or partitioner after it", e) for e in node.outputs]
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
    """Classes that the script defines. One that can't be pickled is left out: it has no instances in flight."""
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
    """Top-level names of the job's modules: the script, what it imports that is not installed, what it added by
    hand."""
    names = {"__main__", *imported_user_modules(), *added_modules}
    for node in plan.nodes.values():
        for function in node.spec.functions():
            names.add(type(function).__module__.partition(".")[0])
    return tuple(sorted(names - {"beadline"}))


def put_on_own_path(paths: list[str]) -> None:
    """Let the driver import what the program adds, unless something else has the name."""
    for path in paths:
        inside = os.path.dirname(path) if path.endswith(".py") or is_package(path) else path
        if inside not in sys.path:
            sys.path.append(inside)
        added_modules.update(_top_names(path))


def _top_names(path: str) -> set[str]:
    if os.path.isdir(path):
        names = os.listdir(path)
        return {os.path.basename(path) if is_package(path) else "", *(name.partition(".")[0] for name in names)} - {""}
    if path.endswith(".py"):
        return {os.path.basename(path).removesuffix(".py")}
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[0].partition(".")[0] for name in archive.namelist()} - {""}


def is_package(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "__init__.py"))
