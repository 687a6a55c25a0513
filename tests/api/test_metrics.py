"""Metrics count in the subtask, travel as plain dicts and are added up in the driver."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from beadline.api.metrics import MetricTotals
from beadline.errors import ConfigurationError
from beadline.metrics import Meter, MetricGroup


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_counter_reports_what_was_added_since_the_last_time() -> None:
    group = MetricGroup()
    counter = group.counter("records")
    counter.inc()
    counter.inc(4)
    counter.dec(2)
    assert group.drain()["counters"] == {"records": 3}
    counter.dec()
    assert group.drain()["counters"] == {"records": -1}
    assert counter.get_count() == 2


def test_every_report_tells_of_all_counters() -> None:
    """So that a new worker, which runs a step again, reports what the first one did."""
    group = MetricGroup()
    group.counter("never")
    group.meter("silent")
    for _ in range(2):
        report = group.drain()
        assert (report["counters"], report["meters"]) == ({"never": 0}, {"silent": (0, 60)})


def test_names_carry_the_groups_they_are_in() -> None:
    group = MetricGroup(("job", "op"))
    group.counter("a").inc()
    group.add_group("inner").counter("a").inc(2)
    group.add_group("table", "orders").counter("a").inc(3)
    assert group.drain()["counters"] == {"job.op.a": 1, "job.op.inner.a": 2, "job.op.table.orders.a": 3}


def test_the_same_name_is_the_same_metric() -> None:
    group = MetricGroup()
    group.add_group("g", "v").counter("c").inc()
    group.add_group("g", "v").counter("c").inc()
    assert group.drain()["counters"] == {"g.v.c": 2}


def test_a_name_can_be_of_one_kind_only() -> None:
    group = MetricGroup(("op",))
    group.counter("n")
    group.gauge("g", lambda: 1)
    with pytest.raises(ConfigurationError, match=r"meter 'op\.n'.*a counter of that name"):
        group.meter("n")
    with pytest.raises(ConfigurationError, match=r"gauge 'op\.n'.*a counter"):
        group.gauge("n", lambda: 1)
    with pytest.raises(ConfigurationError, match=r"distribution 'op\.g'.*a gauge"):
        group.distribution("g")


def test_a_distribution_reports_count_sum_min_and_max_and_starts_again() -> None:
    group = MetricGroup()
    sizes = group.distribution("sizes")
    for value in (5, -2, 9):
        sizes.update(value)
    assert group.drain()["distributions"] == {"sizes": (3, 12, -2, 9)}
    assert group.drain()["distributions"] == {}
    sizes.update(1.5)
    assert group.drain()["distributions"] == {"sizes": (1, 1.5, 1.5, 1.5)}


def test_a_gauge_is_asked_each_time() -> None:
    values = iter([1, 2])
    group = MetricGroup()
    group.gauge("depth", lambda: next(values))
    assert group.drain()["gauges"] == {"depth": 1}
    assert group.drain()["gauges"] == {"depth": 2}


def test_a_gauge_that_raises_is_left_out_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    group = MetricGroup(("op",))
    group.gauge("broken", lambda: 1 // 0)
    group.gauge("fine", lambda: 7)
    assert group.drain()["gauges"] == {"op.fine": 7}
    assert group.drain()["gauges"] == {"op.fine": 7}
    said = "Gauge 'op.broken' raised and is left out of the report."
    assert [record.getMessage() for record in caplog.records] == [said]


def test_a_report_is_plain_even_if_a_gauge_is_not() -> None:
    group = MetricGroup()
    group.gauge("odd", lambda: {1, 2}.__class__)
    group.counter("c").inc()
    group.meter("m").mark_event(3)
    group.distribution("d").update(4)
    report = group.drain()
    assert pickle.loads(pickle.dumps(report)) == report
    assert report["gauges"] == {"odd": "<class 'set'>"}


@pytest.mark.parametrize("name", ["", None, 5])
def test_names_are_strings(name: Any) -> None:
    group = MetricGroup()
    for register in (group.counter, group.meter, group.distribution, group.add_group):
        with pytest.raises(ConfigurationError, match="needs a name"):
            register(name)


def test_wrong_arguments() -> None:
    with pytest.raises(ConfigurationError, match=r"time span.*not 0 s"):
        MetricGroup().meter("m", 0)
    with pytest.raises(ConfigurationError, match="'g' needs a function"):
        MetricGroup().gauge("g", 5)  # type: ignore[arg-type]


def test_totals_are_the_sum_over_subtasks_and_steps() -> None:
    totals = MetricTotals()
    subtasks = [MetricGroup(("op",)) for _ in range(3)]
    for step in range(4):
        for index, group in enumerate(subtasks):
            group.counter("n").inc(10 * step + index)
            group.distribution("d").update(10 * step + index)
            group.gauge("g", lambda index=index: index)  # type: ignore[misc]
            totals.merge(group.drain())
    values = [10 * step + index for step in range(4) for index in range(3)]
    report = totals.as_dict()
    assert report["counters"] == {"op.n": sum(values)}
    assert report["distributions"]["op.d"] == {
        "count": 12,
        "sum": sum(values),
        "min": 0,
        "max": 32,
        "mean": sum(values) / 12,
    }
    assert report["gauges"] == {"op.g": 2}


def test_a_rate_is_over_the_time_span_of_the_meter() -> None:
    clock = Clock()
    totals = MetricTotals(clock)
    group = MetricGroup()
    meter = group.meter("events", 10)
    for second in range(20):
        clock.now = float(second)
        meter.mark_event(5)
        totals.merge(group.drain())
    assert totals.as_dict()["meters"] == {"events": {"count": 100, "rate": 5.0}}
    clock.now = 24.5
    assert totals.as_dict()["meters"] == {"events": {"count": 100, "rate": 2.5}}
    clock.now = 100.0
    assert totals.as_dict()["meters"] == {"events": {"count": 100, "rate": 0.0}}


def test_a_meter_counts_by_itself_too() -> None:
    meter = Meter()
    meter.mark_event()
    meter.mark_event(4)
    assert meter.get_count() == 5
    assert meter.time_span_in_seconds == 60
