"""The output of sinks on its way from a step to the outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beadline.connectors.sink import Held

# By the sink's uid: {"staged": …, "committables": […]}; of a checkpoint that is not written yet {"staged": …, "due":
# [[number, part], …]}.
SinkData = Mapping[str, Any]


@dataclass(eq=False)
class Output:
    """A part on its way: handed out, pre-committed, released, and visible, which is when it is forgotten here.

    :ivar checkpoint: the first one that holds it
    :ivar committable: what pre-committing it gave
    :ivar released: whether a checkpoint that holds it has completed, so that it may be published
    """

    number: int
    uid: str
    part: Any
    checkpoint: int | None = None
    committable: Any = None
    released: bool = False


def held_of(data: Any) -> Held:
    return Held(data["staged"], [part for _, part in data.get("due", ())], data.get("committables", []))
