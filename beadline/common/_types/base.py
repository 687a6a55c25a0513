"""What every type description can do, the error for a value that does not fit it, and the type of any object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from beadline.common.without_java import WithoutJava
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError

_SHOWN = 80

#: Checks a value and gives the one that the next function receives.
Converter: TypeAlias = Callable[[Any], Any]
#: Gives the text of a value.
Formatter: TypeAlias = Callable[[Any], str]


class TypeInformation(WithoutJava):
    """Describes the type of the records of a stream, of a field of them, or of a state.

    Get one from :class:`~beadline.common.typeinfo.Types`. A declared type is a promise: every value is checked against
    it where it leaves the chain of functions, and one that fits reaches the next function as the same Python type.
    """

    def get_java_type_info(self) -> Any:
        raise UnsupportedFeatureError(
            f"{type(self).__name__}.get_java_type_info() needs Flink's JVM, which Beadline does not start. "
            "Use the TypeInformation itself; every Beadline API takes it."
        )

    def need_conversion(self) -> bool:
        """Whether :meth:`to_internal_type` changes the value."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """The value as plain numbers, strings and tuples, as PyFlink hands it to its JVM."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """The opposite of :meth:`to_internal_type`."""
        return obj

    def converter(self) -> Converter | None:
        """A fast function that checks a value and returns what the next function receives; ``None`` if all pass as is.

        The function raises :class:`~beadline.errors.TypeMismatchError` for a value that does not fit.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how its values are checked")

    def plain_test(self) -> str | None:
        """A Python expression over ``{v}`` that is true for values that pass as they are; None if there is no short
        one."""
        return None

    def all_plain(self, values: list[Any]) -> bool:
        """Whether all of these surely pass as they are. False is not certain: it is one quick look at all of them."""
        return False

    def is_immutable(self) -> bool:
        """Whether a value that :meth:`converter` gave can never change."""
        return False

    def held(self) -> TypeInformation:
        """The type of a value while state holds it: as declared, but floats keep their precision, as in PyFlink."""
        return self

    def formatter(self) -> Formatter:
        """A function that gives the line ``print()`` shows for a converted value, without the prefix."""
        return self.java_text()

    def java_text(self) -> Formatter:
        """A function that gives the text of a value inside another one, as Java's ``toString`` would."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its values are shown")

    def _identity(self) -> tuple[Any, ...]:
        """What makes two descriptions of the same class equal."""
        return ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypeInformation):
            return NotImplemented
        return type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._identity()))


def same(value: Any) -> Any:
    """The converter of a type that takes every value."""
    return value


def nullable(text: Formatter) -> Formatter:
    """``text``, with ``null`` for None."""
    return lambda value: "null" if value is None else text(value)


def checked_type(owner: str, role: str, candidate: object) -> TypeInformation:
    """``candidate``, if it is a type description; the usual slip is ``Types.INT`` without its parentheses."""
    if isinstance(candidate, TypeInformation):
        return candidate
    hint = (
        "call it: Types.STRING(), not Types.STRING" if callable(candidate) else "use Types, for example Types.STRING()"
    )
    raise ConfigurationError(f"{owner} takes a TypeInformation as {role}, got {candidate!r}; {hint}.")


def checked_types(owner: str, candidates: Sequence[object]) -> list[TypeInformation]:
    """The field types of a row or tuple, each checked."""
    if isinstance(candidates, TypeInformation) or not isinstance(candidates, Sequence):
        raise ConfigurationError(f"{owner} takes a list of field types, got {candidates!r}; write [{candidates!r}].")
    return [checked_type(owner, f"type of field {index}", candidate) for index, candidate in enumerate(candidates)]


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object. It is what a stream has when no type was declared."""

    def converter(self) -> Converter | None:
        return None

    def java_text(self) -> Formatter:
        return str

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class ExternalTypeInfo(TypeInformation):
    """A type that a table made; its values are those of the wrapped type."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = checked_type("ExternalTypeInfo", "wrapped type", type_info)

    def converter(self) -> Converter | None:
        return self._type_info.converter()

    def formatter(self) -> Formatter:
        return self._type_info.formatter()

    def java_text(self) -> Formatter:
        return self._type_info.java_text()

    def _identity(self) -> tuple[Any, ...]:
        return (self._type_info,)

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info}>"


# -- values that do not fit


def shorten(value: object) -> str:
    """``repr(value)``, cut to a length that fits a message."""
    try:
        text = repr(value)
    except Exception as error:  # a broken __repr__ must not hide the mismatch
        text = f"<{type(value).__name__} whose repr fails: {error!r}>"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class ValueMismatchError(TypeMismatchError):
    """A value that does not fit, with the path to it from the outermost declared type.

    :ivar declared: the type that was declared at the place of the value
    :ivar value: ``repr`` of the value, shortened
    :ivar path: the steps from the outside in, such as ``("field 'f1'", "element 3")``
    """

    def __init__(self, declared: str, wanted: str, value: str, python_type: str, path: tuple[str, ...] = ()) -> None:
        self.declared = declared
        self.wanted = wanted
        self.value = value
        self.python_type = python_type
        self.path = path
        place = f" at {', '.join(path)}" if path else ""
        super().__init__(
            f"A value{place} is not of its declared type {declared}: got {value} of Python type {python_type}. "
            f"{declared} takes {wanted}; convert the value before returning it, or declare another type."
        )

    def within(self, step: str) -> ValueMismatchError:
        """The same mismatch, seen from one level further out."""
        return ValueMismatchError(self.declared, self.wanted, self.value, self.python_type, (step, *self.path))

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueMismatchError, (self.declared, self.wanted, self.value, self.python_type, self.path)


def mismatch(declared: TypeInformation, wanted: str, value: object) -> ValueMismatchError:
    """The error to raise for ``value`` where ``declared`` was promised; ``wanted`` says what would have been taken."""
    return ValueMismatchError(repr(declared), wanted, shorten(value), type(value).__name__)
