"""What happens to other matches once one is found."""

from __future__ import annotations

from typing import Any

from beadline.errors import ConfigurationError, TypeMismatchError


class AfterMatchSkipStrategy:
    """Which partial matches are given up when one is complete: ``Pattern.begin("a", AfterMatchSkipStrategy.…)``.

    With any strategy but :meth:`no_skip` a match waits until no partial match began before it, since the earlier one
    would win.
    """

    __slots__ = ("how", "strict", "target")

    def __init__(self, how: str, target: str | None = None, strict: bool = False) -> None:
        self.how = how
        self.target = target
        self.strict = strict

    @classmethod
    def no_skip(cls) -> AfterMatchSkipStrategy:
        """Every possible match is found. The default."""
        return cls("no_skip")

    @classmethod
    def skip_to_next(cls) -> AfterMatchSkipStrategy:
        """Gives up what began with the same event as the match."""
        return cls("skip_to_next")

    @classmethod
    def skip_past_last_event(cls) -> AfterMatchSkipStrategy:
        """Gives up what began before the match ended: matches share no events."""
        return cls("skip_past_last_event")

    @classmethod
    def skip_to_first(cls, name: str) -> AfterMatchSkipStrategy:
        """Gives up what began before the first event that the stage ``name`` took in the match."""
        return cls("skip_to_first", _stage_name(name))

    @classmethod
    def skip_to_last(cls, name: str) -> AfterMatchSkipStrategy:
        """Gives up what began before the last event that the stage ``name`` took in the match."""
        return cls("skip_to_last", _stage_name(name))

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail if the stage to skip to took no event in a match, or the match's first one; else nothing is skipped."""
        if self.target is None:
            raise ConfigurationError(f"{self!r} skips to no stage, so no stage can be missing")
        return AfterMatchSkipStrategy(self.how, self.target, strict=True)

    def keeps_from(self, path: tuple[Any, ...], target: int) -> int:
        """The number of the first event with which a partial match may begin and survive the match ``path``.

        ``target`` is the stage to skip to. A path is stage, (number, event), stage, (number, event), …
        """
        first: int = path[1][0]
        if self.how == "skip_to_next":
            return first + 1
        if self.how == "skip_past_last_event":
            last: int = path[-1][0]
            return last + 1
        taken = [path[at + 1][0] for at in range(0, len(path), 2) if path[at] == target]
        if not taken:
            if self.strict:
                raise ConfigurationError(f"{self!r}: stage '{self.target}' took no event in a match")
            return 0
        found: int = taken[0] if self.how == "skip_to_first" else taken[-1]
        if self.strict and found == first:
            raise ConfigurationError(f"{self!r}: stage '{self.target}' took the first event of a match")
        return found

    def __repr__(self) -> str:
        return f"AfterMatchSkipStrategy.{self.how}({'' if self.target is None else repr(self.target)})"


def _stage_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeMismatchError(f"the stage to skip to is given by its name, got {name!r}")
    return name
