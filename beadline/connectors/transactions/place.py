"""Where rows are staged, and how they go outside from there."""

from __future__ import annotations

import logging
import re
import secrets
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from beadline.connectors.files.names import Names, PartName
from beadline.connectors.files.pieces import Piece, paths_of, sync_all
from beadline.connectors.files.renaming import RenamedFiles
from beadline.connectors.sink_settings import FAIL, SKIP, UNKNOWN, WRITE_AGAIN
from beadline.connectors.transactions.contract import Entry, Fate, Log, Transactions
from beadline.connectors.transactions.rows import unpacked
from beadline.errors import BeadlineError, TransactionUnknownError

_LOG = logging.getLogger("beadline")

# What the id of a transaction looks like, whichever sink and driver it is of.
_ID = re.compile(r".*-[0-9a-f]{8}-[0-9a-z]{1,40}-\d{1,18}-\d{1,30}-[0-9a-f]{4}", re.DOTALL)


class Outside(RenamedFiles):
    """A part is ``{"subtask": …, "number": …, "pieces": […]}``, and a committable is the part and more: if what was
    made of it is lost, it can be made again."""

    def make_ready(self, part: dict[str, Any]) -> dict[str, Any]:
        """What is staged is all there is to make ready. A checkpoint needs it, so it must be durable."""
        sync_all(paths_of(Piece(*piece) for piece in part["pieces"]))
        return part

    @abstractmethod
    def finish(self, committable: dict[str, Any], recovering: bool) -> Fate:
        """Make a committable visible. Runs on the driver or in tasks."""

    def abort(self, committable: dict[str, Any]) -> None:
        """A committable must never become visible."""

    def refusal(self, committable: dict[str, Any]) -> str:
        """Why a committable of a snapshot, which may be anybody's, is not obeyed; empty if it is."""
        return ""

    # Nothing is made ready but what is staged, unless a place says something else.

    def key_of(self, committable: dict[str, Any]) -> Any:
        return None

    def ready(self) -> Iterator[tuple[Any, Names]]:
        return iter(())

    def parts(self) -> Iterator[tuple[str, Names, PartName]]:
        """What is outside can't be taken back."""
        return iter(())


class TransactionPlace(Outside):
    """Rows go into transactions."""

    def __init__(
        self, names: Names, transactions: Transactions, unknown: str = FAIL, former: Iterable[Names] = ()
    ) -> None:
        super().__init__(names, former=former)
        self._transactions = transactions
        self._unknown = unknown

    def make_ready(self, part: dict[str, Any]) -> dict[str, Any]:
        """Each attempt has an id of its own: what another one wrote can't be committed by mistake."""
        super().make_ready(part)  # its pieces are needed as long as the transaction can be aborted
        who = f"{self.names.stem}-{self.names.driver or 0}"
        id = f"{who}-{part['subtask']}-{part['number']}-{secrets.token_hex(2)}"
        rows = unpacked([Piece(*piece) for piece in part["pieces"]])
        return {**part, "id": id, "handle": self._transactions.write(id, rows)}

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

    def refusal(self, committable: dict[str, Any]) -> str:
        """Others have transactions in the same system, which are none of this sink's business."""
        id, handle = committable["id"], committable["handle"]
        named = handle.get("id", id) if isinstance(handle, dict) else id
        if isinstance(id, str) and named == id and _ID.fullmatch(id):
            return ""
        return f"it names the transaction {named!r}, and no sink gives such an id"

    def key_of(self, committable: dict[str, Any]) -> Any:
        return committable["id"]

    def ready(self) -> Iterator[tuple[Any, Names]]:
        """Those of drivers that are known: a job of the same id elsewhere may have some open too."""
        by_stem: dict[str, dict[str, Names]] = {}
        for names in self.known:
            by_stem.setdefault(f"{names.stem}-", {})[names.driver or "0"] = names
        for stem, drivers in by_stem.items():
            for id in self._transactions.list_open(stem):
                driver = id.removeprefix(stem).partition("-")[0]
                if driver in drivers:
                    yield id, drivers[driver]

    def give_up(self, key: Any) -> None:
        self._transactions.abort_open(key)

    def clear(self) -> None:
        """The job has ended for good: what it left open would stay open."""
        try:
            for key, _ in list(self.ready()):
                self.give_up(key)
        except (OSError, BeadlineError) as error:
            _LOG.warning("transactions that begin with %s may be left open: %s", self.names.stem, error)
        super().clear()


class LogPlace(Outside):
    """Rows are appended to a log."""

    def __init__(self, names: Names, log: Log, former: Iterable[Names] = ()) -> None:
        super().__init__(names, former=former)
        self._log = log

    def make_ready(self, part: dict[str, Any]) -> dict[str, Any]:
        """What may come twice is published when its step is sealed, and no checkpoint needs it."""
        return super().make_ready(part) if self._log.exactly_once else part

    def finish(self, committable: dict[str, Any], recovering: bool) -> Fate:
        entry = Entry(committable["writer"], committable["subtask"], committable["number"])
        self._log.append(entry, unpacked([Piece(*piece) for piece in committable["pieces"]]))
        return Fate.COMMITTED
