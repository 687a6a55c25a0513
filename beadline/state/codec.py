"""The form that a state value takes when user code hands it over.

Immutable values stay as they are. Mutable ones become :class:`Frozen`: their pickle, so that no reference kept by
user code reaches the store, and the first touch in a step (:func:`thaw`) copies. Dataclasses and named tuples are
pickled by the names of their fields (:mod:`beadline.state.named`), values of NumPy as type, shape and bytes
(:mod:`beadline.state.arrays`).

Unpickling resolves only plain data types from a fixed list, classes of the job's own modules, and classes that the user
registered. Bytes of unknown origin are looked at before they are loaded (:mod:`beadline.state.pickles`), so that
nothing else happens than that plain data are made, and instances of these classes.
"""

from __future__ import annotations

import array
import collections
import copyreg
import datetime
import decimal
import fractions
import importlib
import io
import pickle
import sys
import uuid
from collections.abc import Callable, Collection, Iterable
from enum import Enum
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import cloudpickle

from beadline.api.windows.trigger import TriggerResult
from beadline.api.windows.window import CountWindow, GlobalWindow, TimeWindow
from beadline.common.time import Duration, Instant, Time
from beadline.common.types import Row, RowKind, new_row
from beadline.errors import BeadlineError, SerializationError
from beadline.state import arrays
from beadline.state.arrays import Draft
from beadline.state.named import MAKERS, Absent, Reducers, RowMakers
from beadline.state.pickles import PLAIN, Findings, Name
from beadline.state.pickles import check as check_pickle

ATOMS = frozenset({str, int, float, bool, bytes, complex, type(None)})

_NAMED = "beadline.state.named"
_SMALL = 1 << 20  # the memo of a larger value would stay in memory

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


def trust_also(modules: Iterable[str], registered: Iterable[tuple[str, str]]) -> None:
    """The same, without forgetting what was trusted before."""
    trust((*_job_modules, *modules), registered)


def is_trusted(module: str, name: str) -> bool:
    return (module, name) in PLAIN or (module, name) in _registered or _is_below(module, _job_modules)


def _is_below(module: str, roots: Iterable[str]) -> bool:
    return any(module == root or module.startswith(root + ".") for root in roots)


# -- what pickles refer to


def _zone_maker(owner: Any, name: str) -> Any:
    """The one attribute that plain data is pickled with."""
    if owner is ZoneInfo and name == "_unpickle":
        return getattr(owner, name)
    raise SerializationError(f"state refers to the attribute {name!r} of {owner!r}, which is not plain data")


def _plain_objects() -> dict[Name, Any]:
    found: dict[Name, Any] = {
        ("builtins", "getattr"): _zone_maker,
        ("array", "_array_reconstructor"): array._array_reconstructor,  # type: ignore[attr-defined]
        ("beadline.common.types", "new_row"): new_row,
        (__name__, "Frozen"): Frozen,
        **{(arrays.__name__, name): maker for name, maker in arrays.MAKERS.items()},
    }
    builtin = (
        complex,
        range,
        slice,
        bytearray,
        set,
        frozenset,
        object,
        list,
        tuple,
        dict,
        int,
        float,
        str,
        bytes,
        bool,
    )
    standard = (
        *(collections.OrderedDict, collections.defaultdict, collections.deque, collections.Counter),
        *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone),
        *(ZoneInfo, decimal.Decimal, fractions.Fraction, uuid.UUID, uuid.SafeUUID, array.array),
    )
    own = (Row, RowKind, Duration, Instant, Time, TimeWindow, CountWindow, GlobalWindow, TriggerResult)
    for cls in (*builtin, *standard, *own):
        found[cls.__module__, cls.__qualname__] = cls
    return found


_plain: dict[Name, Any] = {}


def _resolve(module: str, name: str, makers: dict[str, Callable[..., Any]] = MAKERS) -> Any:
    """The class or function that a pickle names."""
    found = _plain.get((module, name))
    if found is not None:
        return found
    if module == _NAMED and name in makers:
        return makers[name]
    if not _plain:
        _plain.update(_plain_objects())
        return _resolve(module, name, makers)
    if (module, name) in arrays.OLD:
        raise _NamesNumpy
    if (module, name) == ("beadline.state.key_groups", "BoxedKey"):
        from beadline.state.key_groups import BoxedKey

        return _plain.setdefault((module, name), BoxedKey)
    if (module, name) in _registered or _is_below(module, _job_modules):
        found = _class_named(module, name)
        if (module, name) in _registered or _is_own_class(found):
            _refuse_raw_memory(found)
            return found
    raise SerializationError(
        f"state refers to {module}.{name}, which is neither plain data nor a class that this job defines. "
        f"If it is yours, call beadline.register_state_class({name.rpartition('.')[2]}) before the job starts."
    )


def _class_named(module: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module) if module not in sys.modules else sys.modules[module]
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SerializationError(
            f"state refers to {module}.{name}, which no longer exists. If you renamed it, keep the old name "
            f"as an alias ({name.rpartition('.')[2]} = …)"
        ) from error
    return found


def _is_own_class(found: Any) -> bool:
    """Whether what a trusted module names is a class of such a module: the module may import ``os`` as well, and any
    function in it leads to the builtins."""
    return isinstance(found, type) and _is_below(found.__module__, _job_modules)


@lru_cache(maxsize=1000)
def _refuse_raw_memory(cls: type) -> None:
    """Instances of some classes are made over bytes that are taken for addresses, and classes are made of names."""
    for base in cls.__mro__:
        if base is type or base.__module__.partition(".")[0] in ("numpy", "ctypes", "_ctypes"):
            raise SerializationError(
                f"state holds {cls.__module__}.{cls.__qualname__}, which is a subclass of {base.__module__}."
                f"{base.__qualname__}: such values can't be restored safely. Keep plain values or plain arrays in state"
            )


# -- bytes of unknown origin


def check(data: bytes | memoryview) -> Findings:
    """Look at a pickle that somebody else may have written. After that, :func:`loads_own` may load it, and
    :func:`thaw` what is frozen in it.

    :raises SerializationError: it is not the pickle of data
    """
    findings = check_pickle(data)
    for name in findings.called | findings.made:
        if is_trusted(*name):
            _check_use(name, findings)
    return findings


def _check_use(name: Name, findings: Findings) -> None:
    """Whether pickle makes instances of a class like this. A class that can't be found here can't be loaded either."""
    try:
        cls = _resolve(*name)
    except SerializationError:
        return
    its_own = (
        cls.__reduce_ex__ is not object.__reduce_ex__
        or cls.__reduce__ is not object.__reduce__
        or cls in copyreg.dispatch_table
    )
    takes = hasattr(cls, "__getnewargs__") or hasattr(cls, "__getnewargs_ex__")
    if issubclass(cls, Enum) and (name in findings.made or name in findings.filled):
        problem = "gives a member of an enumeration another content"
    elif name in findings.called and not its_own:
        problem = "calls it with arguments, and its instances are not pickled so"
    elif name in findings.made_of and not (its_own or takes):
        problem = "makes an instance of arguments, and its instances are not pickled so"
    else:
        return
    raise SerializationError(
        f"a pickle that names {'.'.join(name)} is refused: it {problem}. Somebody has made it by hand: use another "
        "checkpoint or savepoint"
    )


class _NamesNumpy(Exception):
    """A pickle names functions of NumPy, for which drafts stand."""


class _StateUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _resolve(module, name)


class _NamesClass(Exception):
    """A pickle names a class or function."""


class _NamelessUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise _NamesClass


class _PatientUnpickler(pickle._Unpickler):
    """Knows drafts of values of NumPy, and puts the values in their places."""

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]
    memo: dict[int, Any]

    def __init__(self, data: bytes | memoryview, find: Callable[[str, str], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._find = find
        self._places: dict[int, int] = {}

    def find_class(self, module: str, name: str) -> Any:
        old = arrays.OLD.get((module, name))
        return self._find(module, name) if old is None else old

    def load_memoize(self) -> None:
        if isinstance(self.stack[-1], Draft):
            self._places[id(self.stack[-1])] = len(self.memo)
        self.memo[len(self.memo)] = self.stack[-1]

    def load_build(self) -> None:
        draft = self.stack[-2]
        if not isinstance(draft, Draft):
            super().load_build()  # type: ignore[misc]
            return
        made = draft.finished(self.stack.pop())
        self.stack[-1] = made
        place = self._places.pop(id(draft), None)
        if place is not None:
            self.memo[place] = made

    dispatch[pickle.MEMOIZE[0]] = load_memoize
    dispatch[pickle.BUILD[0]] = load_build


class _WrittenUnpickler(pickle.Unpickler):
    """Gives values as they were written: instances of classes that are gone or have changed become rows."""

    def __init__(self, data: bytes, rows: RowMakers) -> None:
        super().__init__(io.BytesIO(data))
        self._data = data
        self._rows = rows
        self._absent: list[Absent] = []

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _resolve(module, name, self._rows.by_name)
        except SerializationError:
            if not self._rows.is_for(module, name):
                raise
            self._absent.append(Absent(module, name))
            return self._absent[-1]

    def load(self) -> Any:
        try:
            try:
                value = super().load()
            except _NamesNumpy:
                self._absent.clear()
                value = _PatientUnpickler(self._data, self.find_class).load()
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
    """Unpickle state that somebody else may have written.

    :raises SerializationError: it is not the pickle of data, or can't be loaded
    """
    check(data)
    try:
        return loads_own(data)
    except BeadlineError:
        raise
    except Exception as error:
        raise _unloadable(data, error) from error


def _unloadable(data: bytes | memoryview, error: Exception) -> SerializationError:
    """Also for what a class' own code raises."""
    return SerializationError(
        f"a pickle of {len(data)} bytes can't be loaded: {type(error).__name__}: {str(error)[:500]}. It is damaged, or "
        "was written by another version of a class"
    )


def loads_rows(data: bytes) -> Any:
    """Unpickle rows that are staged for a system outside, which a snapshot of somebody else may have brought along.
    Most name no class at all, so that nothing can be called; they are not looked at first, which takes longer."""
    try:
        return _NamelessUnpickler(io.BytesIO(data)).load()
    except _NamesClass:
        return loads(data)
    except Exception as error:
        raise SerializationError(f"staged rows can't be loaded: {type(error).__name__}: {error}") from error


def loads_own(data: bytes | memoryview) -> Any:
    """Unpickle state that this job itself wrote, or that was checked when it was read. Trusted classes only."""
    try:
        return _StateUnpickler(io.BytesIO(data)).load()
    except _NamesNumpy:
        return _PatientUnpickler(data, _resolve).load()


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
    """A value that user code may hold and change. What is frozen in a segment was checked when that was read."""
    if value.__class__ is not Frozen:
        return value
    try:
        return loads_own(value)
    except BeadlineError:
        raise
    except Exception as error:
        raise _unloadable(value, error) from error


def thaw_as_written(value: Any, only: frozenset[tuple[str, str]] | None = None) -> Any:
    """A value as it was written: a row where its dataclass or named tuple is gone, not trusted, or has other fields
    now. For reading state without the program that wrote it, and for migrating it.

    :param only: modules and qualified names of the classes to do this for; all if left out
    """
    if value.__class__ is not Frozen:
        return value
    if only is not None and not only:
        return loads(value)
    check(value)
    try:
        return _WrittenUnpickler(value, _row_makers(only)).load()
    except BeadlineError:
        raise
    except Exception as error:
        raise _unloadable(value, error) from error


_row_makers = lru_cache(maxsize=100)(RowMakers)


def loads_trusted(data: bytes) -> Any:
    """Unpickle what this job itself pickled a moment ago: records in flight, never state read from storage."""
    return pickle.loads(data)
