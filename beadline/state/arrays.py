"""Values of NumPy in state, as plain data: a type, a shape, and bytes or a list.

NumPy's own way of pickling builds types and arrays of whatever the pickle says, also arrays of objects over raw bytes:
who writes such a pickle writes into memory. So nothing of NumPy is called by a pickle. What is made here is made of a
text that names a type of NumPy's fixed list, and of exactly as many bytes as the shape needs, which are copied.

Pickles that name NumPy's functions (of earlier versions, and of values inside of other pickles) are read with drafts
that stand for these functions, collect what the pickle says, and then go the same way.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from typing import Any

from beadline.errors import SerializationError

Reducer = Callable[[Any], Any]

# The letter of a type, the size of an item, and of a time its unit.
_TEXT = re.compile(r"([<>|=]?)([?bBiufcmMSUVO])(\d{0,10})(\[\d{0,9}[A-Za-z]{1,2}\])?")
_UNIT = re.compile(r"Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as|generic")
_OBJECT = "O"
_MOST_DIMENSIONS = 64
_MOST_FIELDS = 10_000
_DEEPEST = 20
_MOST_EMPTY = 1 << 20  # items without bytes: nothing else bounds their number
_LAST_CHARACTER = 0x10FFFF


def reducer_of(cls: type) -> Reducer | None:
    """How values of a class of NumPy are pickled; None for other classes."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not cls.__module__.startswith("numpy"):
        return None
    if cls is numpy.ndarray:
        return _reduce_array
    if issubclass(cls, numpy.dtype):
        return _reduce_type
    if issubclass(cls, numpy.generic):
        return _reduce_scalar
    return None


def _reduce_array(array: Any) -> Any:
    described = _described(array.dtype)
    if described is None:
        return array.__reduce_ex__(5)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    held = array.ravel(order).tolist() if described == _OBJECT else array.tobytes(order)
    return array_of, (described, array.shape, order, held)


def _reduce_scalar(scalar: Any) -> Any:
    described = _described(scalar.dtype)
    if described is None:
        return scalar.__reduce_ex__(5)
    return scalar_of, (described, scalar.tobytes())


def _reduce_type(dtype: Any) -> Any:
    described = _described(dtype)
    return dtype.__reduce_ex__(5) if described is None else (type_of, (described,))


def _described(dtype: Any) -> Any:
    """A type as plain data; None if it can't be described so."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        inner = _described(base)
        return None if inner is None else ("array", inner, shape)
    if dtype.names is not None:
        fields = []
        for name in dtype.names:
            inner, offset = _described(dtype.fields[name][0]), dtype.fields[name][1]
            if inner is None or inner == _OBJECT:
                return None
            fields.append((name, inner, offset))
        return "fields", tuple(fields), dtype.itemsize, dtype.isalignedstruct
    text = _OBJECT if dtype.hasobject and dtype.kind == "O" else dtype.str
    return text if _TEXT.fullmatch(text) else None


# -- what pickles refer to


def type_of(described: Any) -> Any:
    return _type_of(described, 0)


def _type_of(described: Any, depth: int) -> Any:
    import numpy

    if depth > _DEEPEST:
        raise SerializationError(f"state holds a type of NumPy that is nested more than {_DEEPEST} times")
    try:
        if described.__class__ is str:
            return numpy.dtype(_safe_text(described))
        match described:
            case ("array", inner, tuple(shape)):
                base = _type_of(inner, depth + 1)
                _refuse_objects(base)
                made = numpy.dtype((base, _safe_shape(shape)))
                if made.itemsize != base.itemsize * math.prod(shape):
                    raise ValueError("the sizes don't match")
                return made
            case ("fields", tuple(fields), int(size), bool(aligned)) if len(fields) <= _MOST_FIELDS:
                return _structure(fields, size, aligned, depth)
    except (TypeError, ValueError, OverflowError, KeyError) as error:
        raise _no_type(described, error) from error
    raise _no_type(described, "it is not described as this version describes types")


def _structure(fields: tuple[Any, ...], size: int, aligned: bool, depth: int) -> Any:
    """A type with fields, none of which reaches beyond the item."""
    import numpy

    formats = []
    for name, inner, offset in fields:
        made = _type_of(inner, depth + 1)
        _refuse_objects(made)
        if name.__class__ is not str or offset.__class__ is not int or not 0 <= offset <= size - made.itemsize:
            raise ValueError(f"the field {name!r} at {offset!r} lies outside of {size} bytes")
        formats.append(made)
    names, offsets = [field[0] for field in fields], [field[2] for field in fields]
    return numpy.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size}, align=aligned)


def scalar_of(described: Any, data: bytes) -> Any:
    """One value of a type."""
    return array_of(described, (), "C", data)[()]


def array_of(described: Any, shape: tuple[int, ...], order: str, held: Any) -> Any:
    """An array of its own memory.

    :param held: its bytes; of an array of objects a list of them
    """
    return _array(type_of(described), shape, order, held)


def _array(dtype: Any, shape: Any, order: Any, held: Any) -> Any:
    import numpy

    count = math.prod(_safe_shape(shape))
    if order not in ("C", "F"):
        raise SerializationError(f"state holds an array of NumPy in the order {order!r}; there are 'C' and 'F'")
    if dtype.kind == "O" and held.__class__ is list:
        if len(held) != count:
            raise SerializationError(f"state holds an array of NumPy of the shape {shape} with {len(held)} objects")
        array = numpy.empty(count, dtype)
        for at, item in enumerate(held):
            array[at] = item
        return array.reshape(shape, order=order)
    _refuse_objects(dtype)
    if held.__class__ not in (bytes, bytearray) or len(held) != count * dtype.itemsize:
        what = f"{len(held)} bytes" if isinstance(held, bytes | bytearray) else f"a {type(held).__name__}"
        raise SerializationError(
            f"state holds an array of NumPy of the shape {shape} and the type {dtype} with {what}, and it needs "
            f"{count * dtype.itemsize} bytes"
        )
    if not held:
        if count > _MOST_EMPTY:
            raise SerializationError(f"state holds an array of NumPy with {count} items that have no bytes")
        return numpy.zeros(shape, dtype, order=order)
    # Over bytes first: a structure would not say whether what it is given fits.
    array = numpy.frombuffer(bytearray(held), dtype, count).reshape(shape, order=order)
    _check_content(array)
    return array


def _check_content(array: Any) -> None:
    """Text and truth values have bytes that mean nothing, and NumPy does not look."""
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            _check_content(array[name])
    elif dtype.kind == "U" and dtype.itemsize:
        import numpy

        characters = numpy.ascontiguousarray(array).view(f"{dtype.byteorder}u4")
        if characters.size and int(characters.max()) > _LAST_CHARACTER:
            raise SerializationError("state holds text of NumPy that is no text")
    elif dtype.kind == "b" and array.size and int(array.view("u1").max()) > 1:
        raise SerializationError("state holds a truth value of NumPy that is neither true nor false")


def _safe_text(text: str) -> str:
    found = _TEXT.fullmatch(text)
    if found is None or (found[4] and not _UNIT.fullmatch(found[4].strip("[]0123456789"))):
        raise ValueError("it is not in the list of plain types")
    if found[2] == "O" and text not in (_OBJECT, "|O"):
        raise ValueError("it is not in the list of plain types")
    return text


def _safe_shape(shape: Any) -> tuple[int, ...]:
    fits = shape.__class__ is tuple and len(shape) <= _MOST_DIMENSIONS
    if not fits or not all(size.__class__ is int and 0 <= size < 1 << 48 for size in shape):
        raise SerializationError(f"state holds an array of NumPy of the shape {str(shape)[:200]}, which is no shape")
    made: tuple[int, ...] = shape
    return made


def _refuse_objects(dtype: Any) -> None:
    if dtype.hasobject:
        raise SerializationError(
            f"state holds an array of NumPy whose type {dtype} is made of references to objects, and gives their bytes"
        )


def _no_type(described: Any, why: object) -> SerializationError:
    return SerializationError(f"state holds a value of NumPy of the type {str(described)[:200]!r}: {why}")


#: What the pickles of state may call, by name.
MAKERS: dict[str, Callable[..., Any]] = {"type_of": type_of, "array_of": array_of, "scalar_of": scalar_of}


# -- pickles that name NumPy's functions


class Draft:
    """What a pickle makes in two moves: by a call, and by giving it a state."""

    def finished(self, state: Any) -> Any:
        raise NotImplementedError


class _TypeDraft(Draft):
    def __init__(self, text: Any, align: Any = False, copy: Any = False) -> None:
        if text.__class__ is not str:
            raise _no_type(text, "its name is no text")
        self._text = text

    def finished(self, state: Any) -> Any:
        """The type. Its state is ``(version, byte order, array, names, fields, size, alignment, flags, unit)``."""
        if state.__class__ is not tuple or not 8 <= len(state) <= 9:
            raise _no_type(self._text, "its state is not as NumPy writes it")
        order, subtype, names, fields, size, _, flags = state[1:8]
        if subtype is not None:
            return type_of(("array", self._inner(subtype[0]), subtype[1]))
        if names is not None:
            if fields.__class__ is not dict or names.__class__ is not tuple or len(names) > len(fields):
                raise _no_type(self._text, "its fields are not as NumPy writes them")
            described = tuple((name, self._inner(fields[name][0]), fields[name][1]) for name in names)
            return type_of(("fields", described, size, bool(flags & 0x80)))
        if self._text[:1] == "O":
            return type_of(_OBJECT)
        text = self._text
        if text[:1] in "SUV" and size.__class__ is int and size >= 0:
            text = f"{text[0]}{size // 4 if text[0] == 'U' else size}"
        if len(state) == 9 and text in ("M8", "m8"):
            text += _unit_of(state[8])
        if order not in ("<", ">", "|", "="):
            raise _no_type(self._text, f"{order!r} is no byte order")
        return type_of(text if order == "|" else order + text)

    def _inner(self, made: Any) -> Any:
        import numpy

        described = _described(made) if isinstance(made, numpy.dtype) else None
        if described is None:
            raise _no_type(self._text, "a part of it is no plain type")
        return described


def _unit_of(metadata: Any) -> str:
    """The unit of a time: ``({}, (unit, factor, numerator, denominator))``."""
    match metadata:
        case (_, (bytes(unit), int(factor), _, _)) | (_, (bytes(unit), int(factor), _, _, _)):
            name = unit.decode("ascii", "replace")
            return "" if name == "generic" else f"[{factor if factor != 1 else ''}{name}]"
    raise _no_type("M8", "its unit is not as NumPy writes it")


class _ArrayDraft(Draft):
    """An array that gets its shape, type and content as a state: ``(version, shape, type, Fortran order, content)``."""

    def finished(self, state: Any) -> Any:
        if state.__class__ is tuple and len(state) == 4:
            state = (1, *state)
        if state.__class__ is not tuple or len(state) != 5:
            raise SerializationError("state holds an array of NumPy whose content is not as NumPy writes it")
        return _array(_plain_type(state[2]), state[1], "F" if state[3] else "C", state[4])


def _plain_type(made: Any) -> Any:
    import numpy

    if not isinstance(made, numpy.dtype):
        raise _no_type(made, "it is no type of NumPy")
    return made


class _ArrayClass:
    """Stands for ``numpy.ndarray``, which pickles only name."""


def _old_reconstruct(cls: Any, shape: Any, letter: Any) -> Draft:
    if cls is not _ArrayClass:
        raise SerializationError(f"state holds an array of NumPy of the class {cls!r}; only plain arrays are restored")
    return _ArrayDraft()


def _old_from_buffer(data: Any, made: Any, shape: Any, order: Any, axis_order: Any = None) -> Any:
    if order != "K":
        return _array(_plain_type(made), shape, order, data)
    array = _array(_plain_type(made), shape, "C", data)
    if axis_order.__class__ is not tuple or sorted(axis_order) != list(range(array.ndim)):
        raise SerializationError(f"state holds an array of NumPy whose axes are in the order {str(axis_order)[:200]}")
    return array.transpose(axis_order)


def _old_scalar(made: Any, held: Any) -> Any:
    dtype = _plain_type(made)
    if dtype.kind == "O":
        return held
    return _array(dtype, (), "C", held)[()]


#: What stands for NumPy's functions and classes in pickles, by module and name.
OLD: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _TypeDraft,
    ("numpy", "ndarray"): _ArrayClass,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _old_reconstruct for core in ("_core", "core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _old_scalar for core in ("_core", "core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _old_from_buffer for core in ("_core", "core")},
}
