"""What people want to know of a job long afterwards: its checkpoints in detail, its failures, starts and statuses.

If the job's place is in files it is kept there, next to the stream of news, and a driver that resumes the job goes on
with it. Checkpoints are kept in *pages* of a hundred: when one ends, only the newest page is written again, so that a
long history costs a checkpoint nothing. All else is one more page. Another version of Beadline leaves out what it does
not know. Nothing is decided by it, and a job whose chronicle can't be written runs on.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from beadline.checkpoint.coordinator.statistics import CheckpointStatistics, CheckpointStats, CheckpointStatus
from beadline.checkpoint.storage.storage import JobStorage
from beadline.common.secrets import without_passwords
from beadline.master.engines.threads import Threads
from beadline.master.reporting.news import ExecutionFailed, ExecutionStarted, News, StatusChanged, earlier_news
from beadline.master.reporting.telling import first_line

_LOG = logging.getLogger("beadline")

_PAGE = 100
_EVENTS = "events"
# How many of each kind of event are kept.
_MOST = {ExecutionFailed: 100, ExecutionStarted: 300, StatusChanged: 300}
_LAST_WRITE_SECONDS = 5.0


class Chronicle:
    """Hears all news, and of every checkpoint that has ended.

    :ivar checkpoints: of earlier drivers, oldest first; ``counts``: how many they triggered, completed, and saw fail
    """

    def __init__(self, storage: JobStorage, history: int) -> None:
        self._storage = storage
        self._history = history
        self._writer = Threads(1, "beadline-chronicle")
        self._to_write: dict[str, list[CheckpointStats]] = {}
        self._submitted = False
        self._closed = False
        self._events: dict[type[Any], deque[Any]] = {kind: deque(maxlen=most) for kind, most in _MOST.items()}
        self._pages: dict[int, dict[int, CheckpointStats]] = {}
        self.checkpoints: list[CheckpointStats] = []
        self.counts = (0, 0, 0)
        self._read()

    @property
    def events(self) -> list[ExecutionFailed | ExecutionStarted | StatusChanged]:
        """Failures, starts and statuses, oldest first; also those of earlier drivers."""
        return sorted((event for kept in self._events.values() for event in list(kept)), key=lambda event: event.at)

    # -- in the job's own thread

    def hear(self, event: News) -> None:
        """Something has happened."""
        kept = self._events.get(type(event))
        if kept is not None:
            kept.append(event)
            self._write_soon(_EVENTS, [])

    def heard_of(self, stats: CheckpointStats, statistics: CheckpointStatistics) -> None:
        """A checkpoint has moved on; it is kept when it is complete, or was given up."""
        if stats.status is CheckpointStatus.IN_PROGRESS:
            return
        number = stats.id // _PAGE
        page = self._pages.setdefault(number, {})
        page[stats.id] = stats
        self.counts = (statistics.triggered, statistics.completed, statistics.failed)
        self._write_soon(str(number), list(page.values()))

    def close(self) -> None:
        """What comes from now on is not written: the job's place may go away."""
        self._closed = True
        self._writer.end(_LAST_WRITE_SECONDS)

    def _write_soon(self, page: str, content: list[CheckpointStats]) -> None:
        if self._closed or not self._storage.survives_driver:
            return
        self._to_write[page] = content
        if not self._submitted:
            self._submitted = True
            self._writer.submit(self._write)

    # -- in a thread

    def _write(self) -> None:
        """What has changed, once for all that has come meanwhile."""
        self._submitted = False
        while self._to_write:
            page, content = self._to_write.popitem()
            try:
                self._storage.keep_page(page, self._events_page() if page == _EVENTS else self._packed(content))
                if len(content) == 1:
                    self._drop_old(int(page))
            except Exception as error:
                _LOG.debug("the job's chronicle can't be written: %s", first_line(error))

    def _events_page(self) -> bytes:
        entries = [{"event": type(event).__name__, **dataclasses.asdict(event)} for event in self.events]
        return json.dumps({"events": entries}).encode()

    def _packed(self, content: list[CheckpointStats]) -> bytes:
        return json.dumps({"counts": self.counts, "checkpoints": [_packed(stats) for stats in content]}).encode()

    def _drop_old(self, begun: int) -> None:
        """A page was begun. Ids grow by one, so pages that are far enough before it hold nothing to be remembered."""
        last = begun - self._history // _PAGE - 1
        for page in [page for page in self._storage.pages() if page.isdigit() and int(page) < last]:
            self._pages.pop(int(page), None)
            self._storage.drop_page(page)

    # -- what earlier drivers have kept

    def _read(self) -> None:
        names = self._storage.pages()
        numbers = sorted((int(name) for name in names if name.isdigit()), reverse=True)
        found: dict[int, CheckpointStats] = {}
        for number in numbers:
            if len(found) >= self._history:
                break
            page = self._read_page(str(number))
            stats = [one for entry in page.get("checkpoints", ()) if (one := CheckpointStats.unpacked(entry))]
            found.update((one.id, one) for one in stats)
            self._pages[number] = {one.id: one for one in stats}
            if number == numbers[0]:
                counts = page.get("counts", ())
                self.counts = tuple(counts) if len(counts) == 3 else self.counts
        self.checkpoints = [found[id] for id in sorted(found)]
        events: Iterable[News] = earlier_news(self._storage.history())
        if _EVENTS in names:
            events = earlier_news(json.dumps(self._read_page(_EVENTS).get("events", [])).encode())
        for event in events:
            if type(event) in self._events:
                self._events[type(event)].append(event)

    def _read_page(self, name: str) -> Mapping[str, Any]:
        try:
            page = json.loads(self._storage.page(name) or b"{}")
        except (ValueError, OSError) as error:
            _LOG.debug("a page of the job's chronicle can't be read: %s", error)
            return {}
        return page if isinstance(page, dict) else {}

    def still_there(self, ids: Iterable[int]) -> list[CheckpointStats]:
        """The checkpoints of earlier drivers. All but these, and savepoints, are not there any more."""
        there = set(ids)
        return [
            stats if stats.kind.is_savepoint or stats.id in there or stats.path is None else _gone(stats)
            for stats in self.checkpoints
        ]


def _packed(stats: CheckpointStats) -> dict[str, Any]:
    return replace(stats, message=without_passwords(stats.message)).packed()


def _gone(stats: CheckpointStats) -> CheckpointStats:
    return replace(stats, discarded=True)
