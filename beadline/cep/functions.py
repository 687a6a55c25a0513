"""What user code makes of matches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from beadline.api.function import Function
from beadline.api.output_tag import OutputTag

Match = dict[str, list[Any]]


class PatternProcessFunction(Function):
    """Processes matches. Emits with ``yield``; ``yield tag, value`` goes to the side output of ``tag``.

    The events of a match may belong to other matches as well: look at them, don't change them.
    """

    class Context(ABC):
        """Passed with a match."""

        @abstractmethod
        def timestamp(self) -> int:
            """The time of the match's last event; of a partial match, the time at which it ran out of time."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The wall-clock time; it stands still within one step, so that a re-run gives the same results."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The key that the events of the match have in common."""

    @abstractmethod
    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterable[Any] | None:
        """Yields the results of a match: its events by the names of the stages that took them."""


class TimedOutPartialMatchHandler(ABC):
    """A :class:`PatternProcessFunction` that is also one of these hears of partial matches whose ``within`` is over."""

    @abstractmethod
    def process_timed_out_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterable[Any] | None:
        """Yields the results of a partial match; usually ``yield tag, value``, to a side output."""


class Select(PatternProcessFunction):
    """One result, or with ``flat`` any number of them, for each match."""

    def __init__(self, function: Callable[[Match], Any], flat: bool) -> None:
        self._function = function
        self._flat = flat

    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterable[Any] | None:
        result = self._function(match)
        return result if self._flat else (result,)


class SelectWithTimeout(Select, TimedOutPartialMatchHandler):
    """The same, with results for partial matches in a side output."""

    def __init__(
        self,
        function: Callable[[Match], Any],
        flat: bool,
        tag: OutputTag,
        timeout_function: Callable[[Match, int], Any],
    ) -> None:
        super().__init__(function, flat)
        self._tag = tag
        self._timeout_function = timeout_function

    def process_timed_out_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterable[Any] | None:
        result = self._timeout_function(match, ctx.timestamp())
        results = () if result is None and self._flat else result if self._flat else (result,)
        return [(self._tag, each) for each in results]
