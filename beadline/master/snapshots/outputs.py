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


class Promises:
    """What savepoints name, until it is visible: whoever starts from there needs it, even if this job fails before it
    has published it, and goes on from an earlier checkpoint."""

    def __init__(self) -> None:
        self._owed: dict[int, list[Output]] = {}

    def __repr__(self) -> str:
        return f"<Promises of savepoints {sorted(self._owed)}>"

    def make(self, savepoint: int, outputs: list[Output]) -> None:
        if outputs:
            self._owed[savepoint] = outputs

    def withdraw(self, savepoint: int) -> None:
        """A savepoint was given up: nobody will start from it."""
        self._owed.pop(savepoint, None)

    def keep(self, output: Output) -> None:
        """What is visible is not owed to anybody."""
        for savepoint, outputs in list(self._owed.items()):
            self.withdraw(savepoint)
            self.make(savepoint, [other for other in outputs if other is not output])

    def to_keep(self, uid: str) -> list[Output]:
        """What is owed of a sink."""
        return [output for outputs in list(self._owed.values()) for output in outputs if output.uid == uid]
