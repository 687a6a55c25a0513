"""Patterns among the events of a key: the names of Flink's CEP library, in Python's spelling.

::

    alerts = CEP.pattern(readings.key_by(lambda r: r.sensor), pattern).select(lambda match: match["second"][0])
"""

from beadline.cep.conditions import ConditionContext
from beadline.cep.functions import PatternProcessFunction, TimedOutPartialMatchHandler
from beadline.cep.pattern import AfterMatchSkipStrategy, Pattern
from beadline.cep.pattern_stream import CEP, PatternStream

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "ConditionContext",
    "Pattern",
    "PatternProcessFunction",
    "PatternStream",
    "TimedOutPartialMatchHandler",
]
