"""Where a record's timestamp comes from, and how far event time has come."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from beadline.common.time import Duration
from beadline.common.watermark_generator import WatermarkGenerator, WatermarkOutput
from beadline.common.without_java import WithoutJava
from beadline.errors import ConfigurationError, UnsupportedFeatureError

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "TimestampAssigner",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

WatermarkKind: TypeAlias = Literal["none", "monotonous", "bounded", "generator"]


class WatermarkAlignment(NamedTuple):
    """Sources of one group wait for each other when one is ahead by more than the drift."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


class TimestampAssigner(ABC):
    """Gives every record its timestamp."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The record's time in milliseconds since 1970-01-01T00:00Z.

        :param value: the record
        :param record_timestamp: the timestamp it has so far, a negative number if none
        """


class _FunctionAssigner(TimestampAssigner):
    """Timestamps by a function or lambda. It may leave out the second parameter."""

    def __init__(self, function: Callable[..., int]) -> None:
        self._function = function
        self._with_timestamp = _takes(function, 2)
        if not self._with_timestamp and not _takes(function, 1):
            raise ConfigurationError(
                f"with_timestamp_assigner() takes a function of a record and the timestamp that it has so far, and "
                f"{function!r} has other parameters: write lambda value, timestamp: …"
            )

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self._function(value, record_timestamp) if self._with_timestamp else self._function(value)


def _takes(function: Callable[..., Any], arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError:
        return False
    except ValueError:  # some functions of C do not tell
        return arguments == 2
    return True


def _as_assigner(given: Any) -> TimestampAssigner:
    if isinstance(given, type):
        raise ConfigurationError(
            f"with_timestamp_assigner() takes an object, and {given.__name__} is a class: write {given.__name__}()."
        )
    extract = getattr(given, "extract_timestamp", None)
    if not callable(extract) and not callable(given):
        raise ConfigurationError(
            f"{given!r} is neither a function nor has it a method extract_timestamp; derive its class from "
            "TimestampAssigner."
        )
    own = callable(extract)
    if inspect.isgeneratorfunction(extract if own else given):
        name = f"{type(given).__name__}.extract_timestamp" if own else getattr(given, "__qualname__", repr(given))
        raise ConfigurationError(
            f"the timestamp assigner {name} yields, and so gives a generator instead of a timestamp: write 'return' "
            "in place of 'yield'."
        )
    return cast(TimestampAssigner, given) if own else _FunctionAssigner(given)


class WatermarkStrategy(WithoutJava):
    """How watermarks and timestamps are made::

        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20)).with_timestamp_assigner(MyAssigner())

    :ivar kind: ``"none"``, ``"monotonous"``, ``"bounded"`` or ``"generator"``
    :ivar out_of_orderness_ms: how late a record may be; 0 unless the kind is ``"bounded"``
    :ivar timestamp_assigner: None if the source's timestamps are kept
    :ivar idle_timeout_ms: after how long a silent source no longer holds the watermark back; None for never
    :ivar alignment: None if sources don't wait for each other
    :ivar generator_supplier: makes the generator of each subtask if the kind is ``"generator"``, else None
    """

    def __init__(self, kind: WatermarkKind, out_of_orderness_ms: int = 0) -> None:
        self.kind: WatermarkKind = kind
        self.out_of_orderness_ms = out_of_orderness_ms
        self.timestamp_assigner: TimestampAssigner | None = None
        self.idle_timeout_ms: int | None = None
        self.alignment: WatermarkAlignment | None = None
        self.generator_supplier: Callable[[], WatermarkGenerator] | None = None

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> WatermarkStrategy:
        """Take timestamps from ``timestamp_assigner``. Changes this strategy, and returns it.

        :param timestamp_assigner: a TimestampAssigner, or a function of the record and the timestamp it has so far
        """
        self.timestamp_assigner = _as_assigner(timestamp_assigner)
        return self

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """A copy of this strategy that lets the watermark pass a source that is silent for ``idle_timeout``."""
        millis = _millis("idle_timeout", idle_timeout)
        if millis <= 0:
            raise ConfigurationError(f"idle_timeout must be more than 0 ms, got {idle_timeout!r}.")
        strategy = copy.copy(self)
        strategy.idle_timeout_ms = millis
        return strategy

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: Duration, update_interval: Duration | None = None
    ) -> WatermarkStrategy:
        """A copy of this strategy whose sources wait for the others of ``watermark_group``.

        :param max_allowed_watermark_drift: how far a source may be ahead before it waits
        :param update_interval: how often the sources compare; every second if not given
        """
        drift = _millis("max_allowed_watermark_drift", max_allowed_watermark_drift)
        interval = 1000 if update_interval is None else _millis("update_interval", update_interval)
        if drift < 0 or interval <= 0:
            raise ConfigurationError(
                f"Watermark alignment needs a drift of 0 ms or more and an update interval of more than 0 ms, "
                f"got {drift} ms and {interval} ms."
            )
        strategy = copy.copy(self)
        strategy.alignment = WatermarkAlignment(watermark_group, drift, interval)
        return strategy

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For sources whose timestamps only rise."""
        return WatermarkStrategy("monotonous")

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """For sources whose records are late by at most ``max_out_of_orderness``."""
        millis = _millis("max_out_of_orderness", max_out_of_orderness)
        if millis < 0:
            raise ConfigurationError(f"max_out_of_orderness can't be negative, got {max_out_of_orderness!r}.")
        return WatermarkStrategy("bounded", millis)

    @staticmethod
    def for_generator(generator_supplier: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """For your own watermarks: ``generator_supplier()`` gives each subtask its generator.

        A class of yours is such a supplier; PyFlink has this in Java only.
        """
        if isinstance(generator_supplier, WatermarkGenerator) or not callable(generator_supplier):
            raise ConfigurationError(
                f"for_generator takes something that makes a WatermarkGenerator when it is called, such as its class, "
                f"not {generator_supplier!r}: each subtask needs one of its own."
            )
        strategy = WatermarkStrategy("generator")
        strategy.generator_supplier = generator_supplier
        return strategy

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """For programs that need no event time."""
        return WatermarkStrategy("none")

    def without_watermarks(self) -> WatermarkStrategy:
        """A copy of this strategy that assigns timestamps, but makes no watermarks, takes no source for idle and lets
        none wait."""
        strategy = copy.copy(self)
        strategy.kind = "none"
        strategy.alignment = None
        strategy.idle_timeout_ms = None
        return strategy

    def __repr__(self) -> str:
        parts = [self.kind if self.kind != "bounded" else f"bounded by {self.out_of_orderness_ms} ms"]
        if self.timestamp_assigner is not None:
            parts.append(f"timestamps by {type(self.timestamp_assigner).__name__}")
        if self.idle_timeout_ms is not None:
            parts.append(f"idle after {self.idle_timeout_ms} ms")
        if self.alignment is not None:
            parts.append(f"aligned in {self.alignment.group!r} within {self.alignment.max_drift_ms} ms")
        return f"WatermarkStrategy({', '.join(parts)})"


class AssignerWithPeriodicWatermarksWrapper:
    """PyFlink's handle of a Java assigner; it can't be made here."""

    def __init__(self, j_assigner_with_periodic_watermarks: Any) -> None:
        raise UnsupportedFeatureError(
            "AssignerWithPeriodicWatermarksWrapper wraps a Java object, and Beadline runs without Java. "
            "Use WatermarkStrategy with a TimestampAssigner."
        )


def _millis(name: str, duration: Duration) -> int:
    if not isinstance(duration, Duration):
        raise ConfigurationError(f"{name} takes a Duration such as Duration.of_seconds(5), got {duration!r}.")
    return duration.to_millis()
