from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beadline.errors import UnsupportedFeatureError


class NoJavaObjectError(UnsupportedFeatureError, AttributeError):
    """A program asked for a Java object. It is an ``AttributeError``, so ``hasattr`` says no."""


class WithoutJava:
    """Base of classes that wrap a Java object in PyFlink, as an attribute called ``_j_…``."""

    if not TYPE_CHECKING:  # type checkers know which attributes there are

        def __getattr__(self, name: str) -> Any:
            owner = type(self).__name__
            if name.startswith("_j_"):
                raise NoJavaObjectError(
                    f"{owner}.{name} is an object of Flink's JVM, and Beadline runs without it: use the methods of "
                    f"{owner}, or set options in a Configuration."
                )
            raise AttributeError(f"{owner!r} object has no attribute {name!r}", name=name, obj=self)
