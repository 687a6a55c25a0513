"""Functions over elements of two streams that belong together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from beadline.api.function import Function


class JoinFunction(Function):
    """Makes one element of two that share a key and a window. It must not change them: each has other pairs too."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """The result of the pair."""


class FlatJoinFunction(Function):
    """Makes any number of elements of two that share a key and a window. It must not change them: each has other
    pairs too.

    ::

        class LargerThanOffer(FlatJoinFunction):
            def join(self, first, second):
                if first.price > second.price:
                    yield first.name, second.name
    """

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Yields the results of the pair; ``yield tag, value`` goes to the side output of ``tag``."""


class CoGroupFunction(Function):
    """Evaluates all elements of two streams that share a key and a window. One of the two groups may be empty, so that
    outer joins can be written with it."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        """Yields the results of the two groups; ``yield tag, value`` goes to the side output of ``tag``."""


class ProcessJoinFunction(Function):
    """Processes two elements of keyed streams whose timestamps lie within the interval of an interval join.

    ::

        class Delay(ProcessJoinFunction):
            def process_element(self, left, right, ctx):
                yield left.id, ctx.get_right_timestamp() - ctx.get_left_timestamp()
    """

    class Context(ABC):
        """The times of the pair; valid only during the call that it is passed to."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """The event time of the left element."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """The event time of the right element."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """The event time of the results: the later of the two."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any] | None:
        """Yields the results of the pair; ``yield tag, value`` goes to the side output of ``tag``."""
