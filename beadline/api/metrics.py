"""Metrics of user functions.

They count in the subtask, where counting is cheap. At the end of a step the runtime drains the group into a plain dict
that travels with the acknowledgement, and the driver adds the reports of sealed steps up in :class:`MetricTotals`. A
step that is run again is therefore counted once.
"""

from __future__ import annotations

import logging
import time
from abc import ABC
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from beadline.errors import ConfigurationError

M = TypeVar("M", bound="Metric")

_LOG = logging.getLogger(__name__)

MetricReport = dict[str, dict[str, Any]]
"""``counters``, ``meters``, ``distributions`` and ``gauges``, each a dict by the metric's full name."""


class Metric(ABC):  # noqa: B024 - a name for the kinds of metrics, as in PyFlink
    """Base of the metrics."""


class Counter(Metric):
    """A number that goes up and down."""

    def __init__(self) -> None:
        self._count = 0
        self._drained = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        """The count of this subtask since its function was opened."""
        return self._count

    def drain(self) -> int:
        """What was added since the last drain, even if it is 0: reports of a step that is run again, where a metric
        is new, have to be equal."""
        increment = self._count - self._drained
        self._drained = self._count
        return increment

    def __repr__(self) -> str:
        return f"Counter({self._count})"


class Meter(Metric):
    """Counts events, to be shown as a rate over the last ``time_span_in_seconds``."""

    def __init__(self, time_span_in_seconds: int = 60) -> None:
        if time_span_in_seconds <= 0:
            raise ConfigurationError(f"The time span of a meter must be positive, not {time_span_in_seconds} s.")
        self.time_span_in_seconds = time_span_in_seconds
        self._counter = Counter()

    def mark_event(self, value: int = 1) -> None:
        self._counter.inc(value)

    def get_count(self) -> int:
        """The events of this subtask since its function was opened."""
        return self._counter.get_count()

    def drain(self) -> tuple[int, int]:
        """The events since the last drain and the time span."""
        return self._counter.drain(), self.time_span_in_seconds

    def __repr__(self) -> str:
        return f"Meter({self.get_count()} events)"


class Distribution(Metric):
    """Count, sum, smallest and largest of the values it is given."""

    def __init__(self) -> None:
        self._values: tuple[int, float, float, float] | None = None

    def update(self, value: float) -> None:
        self._values = _add_distributions(self._values, (1, value, value, value))

    def drain(self) -> tuple[int, float, float, float] | None:
        """Count, sum, minimum and maximum since the last drain, ``None`` if no value came."""
        values, self._values = self._values, None
        return values

    def __repr__(self) -> str:
        return f"Distribution({self._values})"


class MetricGroup:
    """A named place for metrics and for further groups; get it from ``runtime_context.get_metrics_group()``.

    Asking twice for the same name gives the same metric.
    """

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        self._scope = scope
        self._groups: dict[str, MetricGroup] = {}
        self._metrics: dict[str, Metric] = {}
        self._gauges: dict[str, Callable[[], Any]] = {}
        self._failed_gauges: set[str] = set()

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """The group ``name`` in this one; with ``extra`` the group ``extra`` in that, for a key and its value."""
        if name not in self._groups:
            self._groups[_checked(name)] = MetricGroup((*self._scope, name))
        group = self._groups[name]
        return group if extra is None else group.add_group(extra)

    def counter(self, name: str) -> Counter:
        return self._registered(name, Counter, Counter)

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """A function that is asked for the current value whenever metrics are reported."""
        if not callable(obj):
            raise ConfigurationError(f"Gauge {self._full_name(name)!r} needs a function of no arguments, not {obj!r}.")
        if name in self._metrics:
            raise self._name_taken(name, "gauge", type(self._metrics[name]).__name__.lower())
        self._gauges[_checked(name)] = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        return self._registered(name, Meter, lambda: Meter(time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        return self._registered(name, Distribution, Distribution)

    def drain(self) -> MetricReport:
        """What happened in this group and those below since the last drain, by full name ``scope.name``.

        Counters and meters report their increments (a meter with its time span), distributions
        ``(count, sum, min, max)``, gauges their value. Distributions that got no value are left out.
        """
        report: MetricReport = {"counters": {}, "meters": {}, "distributions": {}, "gauges": {}}
        self._drain_into(report)
        return report

    def _drain_into(self, report: MetricReport) -> None:
        for name, metric in self._metrics.items():
            for kind, of_class in (("counters", Counter), ("meters", Meter), ("distributions", Distribution)):
                if isinstance(metric, of_class):
                    news = metric.drain()
                    if news is not None:
                        report[kind][self._full_name(name)] = news
        for name, function in self._gauges.items():
            self._read_gauge(name, function, report["gauges"])
        for group in self._groups.values():
            group._drain_into(report)

    def _read_gauge(self, name: str, function: Callable[[], Any], values: dict[str, Any]) -> None:
        try:
            value = function()
        except Exception:
            # A number for a dashboard is no reason to fail a job; say it once.
            if name not in self._failed_gauges:
                self._failed_gauges.add(name)
                _LOG.warning("Gauge %r raised and is left out of the report.", self._full_name(name), exc_info=True)
            return
        values[self._full_name(name)] = value if isinstance(value, (int, float, str, type(None))) else str(value)

    def _registered(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        if name in self._gauges:
            raise self._name_taken(name, kind.__name__.lower(), "gauge")
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[_checked(name)] = make()
        if not isinstance(metric, kind):
            raise self._name_taken(name, kind.__name__.lower(), type(metric).__name__.lower())
        return metric

    def _name_taken(self, name: str, wanted: str, present: str) -> ConfigurationError:
        return ConfigurationError(
            f"Can't register {wanted} {self._full_name(name)!r}: there is a {present} of that name. Choose another."
        )

    def _full_name(self, name: str) -> str:
        return ".".join((*self._scope, name))

    def __repr__(self) -> str:
        return f"MetricGroup({'.'.join(self._scope)!r}, {len(self._metrics) + len(self._gauges)} metrics)"


class MetricTotals:
    """Adds up the reports of :meth:`MetricGroup.drain`.

    :param clock: seconds that only go forward; rates are measured with it
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counters: dict[str, int] = {}
        self._meters: dict[str, _Rate] = {}
        self._distributions: dict[str, tuple[int, float, float, float]] = {}
        self._gauges: dict[str, Any] = {}

    def merge(self, report: MetricReport) -> None:
        """Takes one report in. Of gauges with the same name the last one reported counts."""
        for name, increment in report["counters"].items():
            self._counters[name] = self._counters.get(name, 0) + increment
        now = self._clock()
        for name, (events, span) in report["meters"].items():
            self._meters.setdefault(name, _Rate(span)).add(events, now)
        for name, values in report["distributions"].items():
            self._distributions[name] = _add_distributions(self._distributions.get(name), values)
        self._gauges.update(report["gauges"])

    def as_dict(self) -> MetricReport:
        """The totals: counters as numbers, meters with count and rate, distributions with their mean, gauges."""
        now = self._clock()
        return {
            "counters": dict(self._counters),
            "meters": {name: {"count": m.count, "rate": m.per_second(now)} for name, m in self._meters.items()},
            "distributions": {
                name: {"count": n, "sum": total, "min": low, "max": high, "mean": total / n}
                for name, (n, total, low, high) in self._distributions.items()
            },
            "gauges": dict(self._gauges),
        }

    def __repr__(self) -> str:
        number = len(self._counters) + len(self._meters) + len(self._distributions) + len(self._gauges)
        return f"MetricTotals({number} metrics)"


class _Rate:
    """Events per second over the last ``span`` seconds."""

    def __init__(self, span: int) -> None:
        self._span = span
        self._events: deque[tuple[float, int]] = deque()
        self.count = 0

    def add(self, events: int, now: float) -> None:
        self.count += events
        self._events.append((now, events))
        self._forget(now)

    def per_second(self, now: float) -> float:
        self._forget(now)
        return sum(events for _, events in self._events) / self._span

    def _forget(self, now: float) -> None:
        while self._events and self._events[0][0] <= now - self._span:
            self._events.popleft()


def _add_distributions(
    total: tuple[int, float, float, float] | None, more: tuple[int, float, float, float]
) -> tuple[int, float, float, float]:
    if total is None:
        return more
    return total[0] + more[0], total[1] + more[1], min(total[2], more[2]), max(total[3], more[3])


def _checked(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"A metric or group needs a name that is a str and not empty, not {name!r}.")
    return name
