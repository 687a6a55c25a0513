"""The error for a value that is not of its declared type, and how it learns where in the value it happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beadline.errors import TypeMismatchError

if TYPE_CHECKING:
    from beadline.common._types.base import TypeInformation

_SHOWN = 80


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
