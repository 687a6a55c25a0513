"""The form that a state value takes when user code hands it over.

Immutable values stay as they are. Mutable ones become :class:`Frozen`: their pickle, so that no reference kept by
user code reaches the store, and the first touch in a step (:func:`thaw`) copies. Dataclasses and named tuples are
pickled by the names of their fields (:mod:`beadline.state.named`).

Unpickling resolves only plain data types from a fixed list, classes of the job's own modules, and classes that the user
registered: a stranger's checkpoint can't run code.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

import cloudpickle

from beadline.errors import SerializationError
from beadline.state.named import MAKERS, Absent, Reducers, RowMakers

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
_NAMED = "beadline.state.named"
_SMALL = 1 << 20  # the memo of a larger value would stay in memory

_job_modules: set[str] = {"__main__"}
_registered: set[tuple[str, str]] = set()
_plain_found: dict[tuple[str, str], Any] = {}


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


def trust_also(modules: Iterable[str], registered: Iterable[tuple[str, str]]) -> None:
    """The same, without forgetting what was trusted before."""
    trust((*_job_modules, *modules), registered)


def is_trusted(module: str, name: str) -> bool:
    return _is_named(module, name) or _is_below(module, (*_job_modules, *_PLAIN_PACKAGES))


def _is_named(module: str, name: str) -> bool:
    return name in _PLAIN.get(module, ()) or (module, name) in _registered


def _is_below(module: str, roots: Iterable[str]) -> bool:
    return any(module == root or module.startswith(root + ".") for root in roots)


def _is_own_class(found: Any) -> bool:
    """Whether what a trusted module names is a class of such a module: the module may import ``os`` as well, and any
    function in it leads to the builtins."""
    return isinstance(found, type) and _is_below(found.__module__, (*_job_modules, *_PLAIN_PACKAGES))


def _zone_maker(owner: Any, name: str) -> Any:
    """The one attribute that plain data is pickled with."""
    if owner is ZoneInfo and name == "_unpickle":
        return getattr(owner, name)
    raise SerializationError(f"state refers to the attribute {name!r} of {owner!r}, which is not plain data")


class _StateUnpickler(pickle.Unpickler):
    makers = MAKERS

    def find_class(self, module: str, name: str) -> Any:
        found = _plain_found.get((module, name))
        if found is not None:
            return found
        if module == _NAMED and name in self.makers:
            return self.makers[name]
        if (module, name) == ("builtins", "getattr"):
            return _zone_maker
        if is_trusted(module, name):
            try:
                found = super().find_class(module, name)
            except (ImportError, AttributeError) as error:
                raise SerializationError(
                    f"state refers to {module}.{name}, which no longer exists. If you renamed it, keep the old name "
                    f"as an alias ({name.rpartition('.')[2]} = …)"
                ) from error
            if name in _PLAIN.get(module, ()):
                _plain_found[module, name] = found
            if _is_named(module, name) or _is_own_class(found):
                return found
        raise SerializationError(
            f"state refers to {module}.{name}, which is neither plain data nor a class that this job defines. "
            f"If it is yours, call beadline.register_state_class({name.rpartition('.')[2]}) before the job starts."
        )


class _WrittenUnpickler(_StateUnpickler):
    """Gives values as they were written: instances of classes that are gone or have changed become rows."""

    def __init__(self, data: bytes, rows: RowMakers) -> None:
        super().__init__(io.BytesIO(data))
        self._rows = rows
        self.makers = rows.by_name
        self._absent: list[Absent] = []

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except SerializationError:
            if not self._rows.is_for(module, name):
                raise
            self._absent.append(Absent(module, name))
            return self._absent[-1]

    def load(self) -> Any:
        try:
            value = super().load()
        except (pickle.UnpicklingError, TypeError):
            if not self._absent:
                raise
        else:
            if all(absent.replaced for absent in self._absent):
                return value
        lost = next((absent for absent in self._absent if not absent.replaced), self._absent[0])
        raise SerializationError(
            f"state refers to {lost.name}, which is neither plain data nor a class with fields, and can't be found. If "
            "it is yours, import it and call beadline.register_state_class() on it"
        )


class _StatePickler(pickle.Pickler):
    """Used again and again: making one costs more than pickling a small value.

    :ivar written: what was pickled, mostly in one piece
    """

    dispatch_table = Reducers()

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.write = self.written.append
        super().__init__(self, 5)


_picklers: list[_StatePickler] = []


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


def all_atomic(values: Collection[Any]) -> bool:
    """Whether all values are atoms or tuples of atoms, which are immutable. A look at all of them at once is several
    times faster than :func:`is_immutable` of each."""
    kinds = set(map(type, values))
    if tuple in kinds:
        kinds.remove(tuple)
        kinds.update(map(type, chain.from_iterable(value for value in values if value.__class__ is tuple)))
    return kinds <= ATOMS


def freeze(value: Any) -> Any:
    """The form in which the store keeps a value."""
    if is_immutable(value):
        return value
    try:
        pickler = _picklers.pop() if _picklers else _StatePickler()
        pickler.dump(value)  # if it fails, the pickler is dropped
        written = pickler.written
        frozen = Frozen(written[0] if len(written) == 1 else b"".join(written))
        if len(frozen) <= _SMALL:
            written.clear()
            pickler.clear_memo()
            _picklers.append(pickler)
        return frozen
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SerializationError(
            f"a state value of type {type(value).__name__} can't be pickled: {error}. Classes of state values must be "
            "defined at the top of a module or script, and hold nothing like locks, files or connections."
        ) from error


def thaw(value: Any) -> Any:
    """A value that user code may hold and change."""
    return loads(value) if value.__class__ is Frozen else value


def thaw_as_written(value: Any, only: frozenset[tuple[str, str]] | None = None) -> Any:
    """A value as it was written: a row where its dataclass or named tuple is gone, not trusted, or has other fields
    now. For reading state without the program that wrote it, and for migrating it.

    :param only: modules and qualified names of the classes to do this for; all if left out
    """
    if value.__class__ is not Frozen:
        return value
    return loads(value) if only is not None and not only else _WrittenUnpickler(value, _row_makers(only)).load()


_row_makers = lru_cache(maxsize=100)(RowMakers)


def loads_trusted(data: bytes) -> Any:
    """Unpickle what this job itself pickled a moment ago: records in flight, never state read from storage."""
    return pickle.loads(data)
