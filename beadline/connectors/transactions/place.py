"""Where rows are staged, and how they go outside from there."""

from __future__ import annotations

import logging
import secrets
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from beadline.connectors.files.names import Names, PartName
from beadline.connectors.files.pieces import Piece, paths_of
from beadline.connectors.files.renaming import RenamedFiles
from beadline.connectors.sink_settings import FAIL, SKIP, UNKNOWN, WRITE_AGAIN
from beadline.connectors.transactions.contract import Entry, Fate, Log, Transactions
from beadline.connectors.transactions.rows import unpacked
from beadline.errors import TransactionUnknownError
from beadline.state.segments.files import parent, sync

_LOG = logging.getLogger("beadline")


class Outside(RenamedFiles):
    """A part is ``{"subtask": …, "number": …, "pieces": […]}``, and a committable is the part and more: if what was
    made of it is lost, it can be made again."""

    def sync(self, pieces: list[Piece]) -> None:
        """Pieces that a checkpoint needs, beyond what is staged in it, must be durable."""
        for path in paths_of(pieces):
            sync(path)
            sync(parent(path))

    @abstractmethod
    def finish(self, committable: dict[str, Any], recovering: bool) -> Fate:
        """Make a committable visible. Runs on the driver or in tasks."""

    def abort(self, committable: dict[str, Any]) -> None:
        """A committable must never become visible."""

    def finish_in_order(self, recovering: bool, committables: list[dict[str, Any]]) -> int:
        """Make committables of one subtask visible, up to the first one that is lost; gives how many are."""
        for position, committable in enumerate(committables):
            if self.finish(committable, recovering) is Fate.ABORTED:
                return position
        return len(committables)

    # Nothing is made ready but what is staged, unless a place says something else.

    def key_of(self, committable: dict[str, Any]) -> Any:
        return None

    def ready(self) -> Iterator[tuple[Any, int]]:
        return iter(())

    def parts(self) -> Iterator[tuple[str, PartName]]:
        """What is outside can't be taken back."""
        return iter(())


class TransactionPlace(Outside):
    """Rows go into transactions."""

    def __init__(self, names: Names, transactions: Transactions, unknown: str = FAIL) -> None:
        super().__init__(names)
        self._transactions = transactions
        self._unknown = unknown
        self._ids = f"{names.prefix}-{names.run[:8]}-"

    def make_ready(self, part: dict[str, Any]) -> dict[str, Any]:
        """Each attempt has an id of its own: what another one wrote can't be committed by mistake."""
        pieces = [Piece(*piece) for piece in part["pieces"]]
        self.sync(pieces)  # they are needed as long as the transaction can be aborted
        id = f"{self._ids}{self.names.epoch}-{part['subtask']}-{part['number']}-{secrets.token_hex(2)}"
        return {**part, "id": id, "handle": self._transactions.write(id, unpacked(pieces))}

    def finish(self, committable: dict[str, Any], recovering: bool) -> Fate:
        act = self._transactions.recover if recovering else self._transactions.commit
        try:
            return act(committable["handle"])
        except TransactionUnknownError as error:
            if self._unknown == FAIL:
                error.add_note(
                    f"Set {UNKNOWN} to {WRITE_AGAIN}, and its rows are written again: they are there twice if it was "
                    f"committed. Set it to {SKIP}, and they are not: they are lost if it was aborted"
                )
                raise
            _LOG.error("%s. Its rows are %s", error, "written again" if self._unknown == WRITE_AGAIN else "left out")
            return Fate.ABORTED if self._unknown == WRITE_AGAIN else Fate.COMMITTED

    def abort(self, committable: dict[str, Any]) -> None:
        self._transactions.abort(committable["handle"])

    def key_of(self, committable: dict[str, Any]) -> Any:
        return committable["id"]

    def ready(self) -> Iterator[tuple[Any, int]]:
        for id in self._transactions.list_open(self._ids):
            epoch = id.removeprefix(self._ids).partition("-")[0]
            if epoch.isdigit() and int(epoch) <= self.names.epoch:
                yield id, int(epoch)

    def give_up(self, key: Any) -> None:
        self._transactions.abort_open(key)


class LogPlace(Outside):
    """Rows are appended to a log."""

    def __init__(self, names: Names, log: Log) -> None:
        super().__init__(names)
        self._log = log

    def make_ready(self, part: dict[str, Any]) -> dict[str, Any]:
        """What is staged is all there is to make ready; whoever appends it later says whose entry it is."""
        if self._log.exactly_once:
            self.sync([Piece(*piece) for piece in part["pieces"]])
        return {**part, "writer": self.names.run}

    def finish(self, committable: dict[str, Any], recovering: bool) -> Fate:
        entry = Entry(committable["writer"], committable["subtask"], committable["number"])
        self._log.append(entry, unpacked([Piece(*piece) for piece in committable["pieces"]]))
        return Fate.COMMITTED
