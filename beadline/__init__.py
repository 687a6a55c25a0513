"""Beadline: PyFlink DataStream programs, run unmodified on Apache Spark.

Start from :class:`beadline.datastream.StreamExecutionEnvironment`, or keep a program's ``pyflink`` imports as they are
and run it with ``beadline run --pyflink job.py``.
"""

from beadline.state.codec import register_state_class

__all__ = ["__version__", "register_state_class"]

__version__ = "0.1.0"
