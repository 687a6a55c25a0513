"""Brings staged rows outside, in order.

A system outside does not forget: what is visible stays visible. So rows of a subtask leave in the order in which they
came. If a transaction was aborted, its rows are written again in a new one, and so are those of all later ones of its
subtask that are not visible yet.
"""

from __future__ import annotations

import itertools
import logging
import math
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

from beadline.connectors.files.committer import FileCommitter
from beadline.connectors.files.named import strays
from beadline.connectors.files.pieces import Piece, paths_of, with_data
from beadline.connectors.files.policy import RollingPolicy
from beadline.connectors.sink import Call, Held
from beadline.connectors.transactions.contract import Fate
from beadline.connectors.transactions.place import Outside

_LOG = logging.getLogger("beadline")
# A driver's entries are numbered above those of all drivers before it.
_OF_A_DRIVER = 40
# Parts that a snapshot brought along have a bucket of their own.
_RESTORED = "restored"


class OutsideCommitter(FileCommitter):
    """A part is all that one subtask has staged since the last one. Parts that are handed out together have one number.

    :param heavy: whether it takes long to make a committable visible, so that tasks do it
    """

    in_order = True

    def __init__(self, place: Outside, heavy: bool) -> None:
        super().__init__(place, RollingPolicy(on_checkpoint=True))
        self._outside = place
        self._heavy = heavy
        self._base = 0
        self._number = place.names.epoch << _OF_A_DRIVER
        # A job that begins from nothing is another writer, even if it has the id of an earlier one.
        self._writer = f"{place.names.run}-{secrets.token_hex(4)}"
        # By subtask: the newest number that was given, the newest that is visible, and up to where nothing may become
        # visible any more.
        self._newest: dict[int, int] = {}
        self._visible: dict[int, int] = {}
        self._void: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"<OutsideCommitter of {self._names.run[:8]}: {len(self._open)} open parts>"

    def due(self, at_checkpoint: bool) -> list[Any]:
        """Everything: who asks wants it to be visible as soon as may be. What a savepoint brought along comes first, of
        all subtasks: with another parallelism its keys are in other subtasks now."""
        parts, self._open = self._open, {}
        handed_out = []
        for bucket in (_RESTORED, ""):
            own = [(subtask, part.pieces) for (name, subtask), part in parts.items() if name == bucket]
            number = self._next() if own else 0
            handed_out += [self._numbered(number, subtask, pieces) for subtask, pieces in own]
        return handed_out

    def _next(self) -> int:
        """Numbers only grow, also from a job to one that starts from its savepoint: a log may remember the last."""
        self._number += 1
        return self._number

    def _numbered(self, number: int, subtask: int, pieces: list[Piece]) -> dict[str, Any]:
        self._newest[subtask] = number
        self._handed_out |= paths_of(pieces)
        as_data = [piece.as_data() for piece in pieces]
        return {"subtask": subtask, "number": number, "writer": self._writer, "pieces": as_data}

    def snapshot(self) -> Any:
        return {**super().snapshot(), "writer": self._writer, "base": self._base, "last": self._number}

    def strays(self, data: Any, also: list[str]) -> Iterator[str]:
        yield from strays(data, self._names, also)
        for committable in data["committables"]:
            if refusal := self._outside.refusal(committable):
                yield refusal

    def restore(self, snapshot: Any, needed: list[Held], epoch: int | None = None) -> None:
        """Numbers go on above all that were given, by whichever driver or job: what a log remembers is smaller."""
        super().restore(snapshot, needed, epoch)
        self._open = {(_RESTORED, subtask): part for (_, subtask), part in self._open.items()}
        self._void.clear()
        counted = snapshot.get("driver")
        is_own = epoch is not None if counted is None else counted[0] == self._names.run
        if not (is_own and snapshot["writer"]):
            # It comes from another job, whose drivers were counted apart from ours, and may go on counting.
            self._base = (snapshot["last"] >> _OF_A_DRIVER) + 1
        else:
            self._writer, self._base = snapshot["writer"], snapshot["base"]
        given = [part["number"] for held in needed for part in held.parts + held.committables]
        first = self._base + self._names.epoch << _OF_A_DRIVER
        self._number = max(self._number, first, snapshot["last"], *given)

    def portable(self, snapshot: Any, parts: list[Any]) -> Any:
        """Whoever starts from it is another writer: this one may go on, and a job of the same id could give the numbers
        that it gives from now on."""
        return {**snapshot, **super().portable(snapshot, parts), "writer": ""}

    # -- two phases

    def turn(self, part: Any) -> int:
        """Rows of a Kafka topic lie in the order in which they were written. What is written again comes first."""
        return _number_of(part)

    def publish(self, committables: list[Any], call: Call, recovering: bool) -> list[Any]:
        """Number by number. If one is lost, the later ones of its subtask are given back too."""
        lost: list[Any] = []
        for _, same in itertools.groupby(sorted(committables, key=_number_of), _number_of):
            lost += self._publish_number(list(same), call, recovering)
        for committable in lost:
            self._outside.abort(committable)
        if lost:
            _LOG.warning(
                "%d transactions were aborted before they could be committed (%s): their rows are written again",
                len(lost),
                ", ".join(str(committable.get("id")) for committable in lost[:3]),
            )
        return lost

    def _publish_number(self, committables: list[Any], call: Call, recovering: bool) -> list[Any]:
        """Those of one number, which belong to different subtasks."""
        new = [each for each in committables if each["number"] > self._visible.get(each["subtask"], -1)]
        lost = [each for each in new if each["number"] <= self._void.get(each["subtask"], -1)]
        ready = [each for each in new if each["number"] > self._void.get(each["subtask"], -1)]
        fates = call(partial(self._outside.finish, recovering=recovering), ready, self._weight_of)
        for committable, fate in zip(ready, fates, strict=True):
            if fate is Fate.COMMITTED:
                self._visible[committable["subtask"]] = committable["number"]
            else:
                self._void[committable["subtask"]] = math.inf
                lost.append(committable)
        return lost

    def _weight_of(self, committable: Any) -> int:
        return self.weight(committable) if self._heavy else 0

    def again(self, parts: list[Any], lost: list[Any]) -> list[Any]:
        """All parts of the subtasks that lost one, with new numbers in the old order; the old ones are void."""
        for committable in lost:
            subtask = committable["subtask"]
            self._void[subtask] = max(self._newest.get(subtask, 0), committable["number"])
        subtasks = {committable["subtask"] for committable in lost}
        return [self._renumbered(part) if part["subtask"] in subtasks else None for part in parts]

    def _renumbered(self, part: dict[str, Any]) -> dict[str, Any]:
        return self._numbered(self._next(), part["subtask"], [Piece(*piece) for piece in part["pieces"]])

    def portable_committables(self, committables: list[Any]) -> list[Any]:
        """With all data: a later driver may abort the transaction, and the rows are written again then."""
        return [{**c, "pieces": [with_data(Piece(*p)).as_data() for p in c["pieces"]]} for c in committables]


def _number_of(committable: dict[str, Any]) -> int:
    number: int = committable["number"]
    return number
