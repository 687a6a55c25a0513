"""Brings staged rows outside, in order.

A system outside does not forget: what is visible stays visible. So rows of a subtask leave in the order in which they
came. If a transaction was aborted, its rows are written again in a new one, and so are those of all later ones of its
subtask that are not visible yet.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from beadline.connectors.files.committer import FileCommitter
from beadline.connectors.files.pieces import Piece, paths_of, with_data
from beadline.connectors.files.policy import RollingPolicy
from beadline.connectors.sink import Call, Held
from beadline.connectors.transactions.place import Outside

_LOG = logging.getLogger("beadline")
# A driver's entries are numbered above those of all drivers before it.
_OF_A_DRIVER = 40
# Where the last number is among the counters of a snapshot.
_LAST = 0


class OutsideCommitter(FileCommitter):
    """A part is all that one subtask has staged since the last one. Parts that are handed out together have one number.

    :param heavy: whether it takes long to make a committable visible, so that tasks do it
    """

    def __init__(self, place: Outside, heavy: bool) -> None:
        super().__init__(place, RollingPolicy(on_checkpoint=True))
        self._outside = place
        self._heavy = heavy
        self._number = place.names.epoch << _OF_A_DRIVER
        # By subtask: the newest number that was given, the newest that is visible, and up to where nothing may become
        # visible any more.
        self._newest: dict[int, int] = {}
        self._visible: dict[int, int] = {}
        self._void: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"<OutsideCommitter of {self._names.run[:8]}: {len(self._open)} open parts>"

    def due(self, at_checkpoint: bool) -> list[Any]:
        """Everything: who asks wants it to be visible as soon as may be."""
        parts, self._open = self._open, {}
        number = self._next() if parts else 0
        return [self._numbered(number, subtask, part.pieces) for (_, subtask), part in parts.items()]

    def _next(self) -> int:
        """Numbers only grow, also from a job to one that starts from its savepoint: a log may remember the last."""
        self._number += 1
        return self._number

    def _numbered(self, number: int, subtask: int, pieces: list[Piece]) -> dict[str, Any]:
        self._newest[subtask] = number
        self._handed_out |= paths_of(pieces)
        return {"subtask": subtask, "number": number, "pieces": [piece.as_data() for piece in pieces]}

    def snapshot(self) -> Any:
        self._counters = {_LAST: self._number}
        return super().snapshot()

    def restore(self, snapshot: Any, needed: list[Held]) -> None:
        super().restore(snapshot, needed)
        self._number = max(self._number, self._counters.get(_LAST, 0))

    # -- two phases

    def turn(self, part: Any) -> int:
        """Rows of a Kafka topic lie in the order in which they were written. What is written again comes first."""
        return _number_of(part)

    def publisher(self) -> Callable[[Any], None]:
        return partial(_finish_one, self._outside)

    def publish(self, committables: list[Any], call: Call, recovering: bool) -> list[Any]:
        """Each subtask's in order, up to the first one that is lost: that one and the later ones are given back."""
        groups: dict[int, list[Any]] = {}
        for committable in sorted(committables, key=_number_of):
            subtask, number = committable["subtask"], committable["number"]
            if number > self._visible.get(subtask, -1):
                groups.setdefault(subtask, []).append(committable)
        lost = []
        for subtask, group in groups.items():
            if group[0]["number"] <= self._void.get(subtask, -1):
                lost += group
                groups[subtask] = []
        ready = [group for group in groups.values() if group]
        counts = call(partial(self._outside.finish_in_order, recovering), ready, self._weight_of)
        for group, count in zip(ready, counts, strict=True):
            subtask = group[0]["subtask"]
            if count:
                self._visible[subtask] = group[count - 1]["number"]
            if count < len(group):
                self._void[subtask] = math.inf
                lost += group[count:]
        for committable in lost:
            self._outside.abort(committable)
        if lost:
            _LOG.warning(
                "%d transactions were aborted before they could be committed (%s): their rows are written again",
                len(lost),
                ", ".join(str(committable.get("id")) for committable in lost[:3]),
            )
        return lost

    def _weight_of(self, group: list[Any]) -> int:
        return sum(map(self.weight, group)) if self._heavy else 0

    def again(self, parts: list[Any], lost: list[Any]) -> list[Any]:
        """All parts of the subtasks that lost one, with new numbers in the old order; the old ones are void."""
        for committable in lost:
            subtask = committable["subtask"]
            self._void[subtask] = max(self._newest.get(subtask, 0), committable["number"])
        subtasks = {committable["subtask"] for committable in lost}
        return [self._renumbered(part) if part["subtask"] in subtasks else None for part in parts]

    def _renumbered(self, part: dict[str, Any]) -> dict[str, Any]:
        return self._numbered(self._next(), part["subtask"], [Piece(*piece) for piece in part["pieces"]])

    def portable_committable(self, committable: Any) -> Any:
        whole = [with_data(Piece(*piece)).as_data() for piece in committable["pieces"]]
        return {**committable, "pieces": whole}


def _number_of(committable: dict[str, Any]) -> int:
    number: int = committable["number"]
    return number


def _finish_one(place: Outside, committable: Any) -> None:
    place.finish(committable, recovering=False)
