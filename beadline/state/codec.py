"""What a state value becomes when it leaves the hands of user code.

Immutable values stay as they are. Mutable ones become :class:`Frozen`: their pickle, so that no reference kept by
user code reaches the store, and first touch in a step (:func:`thaw`) is the copy.

Unpickling resolves only plain data types from a fixed list, classes of the job's own modules, and classes that the user
registered: a stranger's checkpoint can't run code.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo

import cloudpickle

from beadline.errors import SerializationError

ATOMS = frozenset({str, int, float, bool, bytes, complex, type(None)})

_PLAIN: dict[str, frozenset[str]] = {
    "builtins": frozenset(
        {"set", "frozenset", "bytearray", "complex", "range", "slice", "int", "float", "str", "bytes", "bool"}
        | {"list", "tuple", "dict", "object"}
    ),
    "collections": frozenset({"OrderedDict", "defaultdict", "deque", "Counter"}),
    "datetime": frozenset({"date", "time", "datetime", "timedelta", "timezone"}),
    "zoneinfo": frozenset({"ZoneInfo"}),
    "decimal": frozenset({"Decimal"}),
    "fractions": frozenset({"Fraction"}),
    "uuid": frozenset({"UUID", "SafeUUID"}),
    "array": frozenset({"array", "_array_reconstructor"}),
    "numpy": frozenset({"ndarray", "dtype"}),
    "numpy._core.multiarray": frozenset({"_reconstruct", "scalar"}),
    "numpy.core.multiarray": frozenset({"_reconstruct", "scalar"}),
    "numpy._core.numeric": frozenset({"_frombuffer"}),
    "beadline.common.types": frozenset({"new_row"}),
    "beadline.state.codec": frozenset({"Frozen"}),
    "beadline.state.key_groups": frozenset({"BoxedKey"}),
}
_PLAIN_PACKAGES = ("beadline.common", "beadline.api.windows")

_job_modules: set[str] = {"__main__"}
_registered: set[tuple[str, str]] = set()


class Frozen(bytes):
    """The pickle of a mutable state value."""

    __slots__ = ()


def register_state_class(cls: type) -> None:
    """Let state hold instances of a class that is defined outside of the job's own modules."""
    _registered.add((cls.__module__, cls.__qualname__))


def registered_state_classes() -> frozenset[tuple[str, str]]:
    return frozenset(_registered)


def trust(modules: Iterable[str], registered: Iterable[tuple[str, str]]) -> None:
    """Replace what unpickling may resolve beyond plain data: the job's modules and the registered classes."""
    _job_modules.clear()
    _job_modules.update(modules, ("__main__",))
    _registered.update(registered)


def is_trusted(module: str, name: str) -> bool:
    return _is_named(module, name) or _is_below(module, (*_job_modules, *_PLAIN_PACKAGES))


def _is_named(module: str, name: str) -> bool:
    return name in _PLAIN.get(module, ()) or (module, name) in _registered


def _is_below(module: str, roots: Iterable[str]) -> bool:
    return any(module == root or module.startswith(root + ".") for root in roots)


def _is_own_class(found: Any) -> bool:
    """Whether what a trusted module names is a class of such a module: it may import ``os`` as well, and any function
    in it leads to the builtins."""
    return isinstance(found, type) and _is_below(found.__module__, (*_job_modules, *_PLAIN_PACKAGES))


def _zone_maker(owner: Any, name: str) -> Any:
    """The one attribute that plain data is pickled with."""
    if owner is ZoneInfo and name == "_unpickle":
        return getattr(owner, name)
    raise SerializationError(f"state refers to the attribute {name!r} of {owner!r}, which is not plain data")


class _StateUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _zone_maker
        if is_trusted(module, name):
            found = super().find_class(module, name)
            if _is_named(module, name) or _is_own_class(found):
                return found
        raise SerializationError(
            f"state refers to {module}.{name}, which is neither plain data nor a class that this job defines. "
            f"If it is yours, call beadline.register_state_class({name.rpartition('.')[2]}) before the job starts."
        )


def loads(data: bytes | memoryview) -> Any:
    """Unpickle state, resolving trusted classes only."""
    return _StateUnpickler(io.BytesIO(data)).load()


def dumps(value: Any) -> bytes:
    """Pickle by reference where possible, by value for classes that no module holds (notebooks, local classes)."""
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError) as by_reference:
        try:
            return bytes(cloudpickle.dumps(value, 5))
        except Exception:
            raise SerializationError(
                f"a value of type {type(value).__name__} can't be pickled: {by_reference}"
            ) from by_reference


def is_immutable(value: Any) -> bool:
    """Whether a value may be shared between the store and user code."""
    kind = value.__class__
    if kind in ATOMS:
        return True
    if kind is tuple:
        for item in value:
            if item.__class__ not in ATOMS and not is_immutable(item):
                return False
        return True
    return False


def freeze(value: Any) -> Any:
    """The form in which the store keeps a value."""
    if is_immutable(value):
        return value
    try:
        return Frozen(pickle.dumps(value, 5))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SerializationError(
            f"a state value of type {type(value).__name__} can't be pickled: {error}. Classes of state values must be "
            "defined at the top of a module or script, and hold nothing like locks, files or connections."
        ) from error


def thaw(value: Any) -> Any:
    """A value that user code may hold and change."""
    return loads(value) if value.__class__ is Frozen else value


def loads_trusted(data: bytes) -> Any:
    """Unpickle what this job itself pickled a moment ago: records in flight, never state read from storage."""
    return pickle.loads(data)
