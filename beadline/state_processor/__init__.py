"""State as tables: read, compare, make and edit checkpoints and savepoints with Spark DataFrames.

::

    from beadline import state_processor

    reader = state_processor.read(spark, "/checkpoints/savepoint-a1b2c3-0123456789ab")
    reader.operators().show()
    reader.keyed_state("counter", "count").where("value > 100").show()

    state_processor.diff(spark, older, newer, "counter", "count").show()

    state_processor.SavepointWriter.new_savepoint(spark).with_keyed_state(
        "counter", "count", totals, key="user", value="n", key_type=Types.STRING(), value_type=Types.LONG()
    ).write("/savepoints/bootstrapped")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beadline.state_processor.reader import SavepointReader, diff, read
    from beadline.state_processor.writer import SavepointWriter

__all__ = ["SavepointReader", "SavepointWriter", "diff", "read"]


def __getattr__(name: str) -> Any:
    """Spark is imported when one of these is used: ``local`` looks at state without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from beadline.state_processor import reader, writer

    return getattr(writer if name == "SavepointWriter" else reader, name)
