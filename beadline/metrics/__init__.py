"""Metrics of user functions, where PyFlink has them."""

from beadline.api.metrics import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
