"""What the job has published, and whether it is right: the formula knows each line beforehand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from beadline.cli.playground.clicks import PAGES, PER_WINDOW, WINDOW


class Output(Protocol):
    """Where results appear."""

    def new(self) -> list[str]:
        """The lines that have become visible since the last time."""

    def close(self) -> None: ...


class FilesOutput:
    """The files of a ``FileSink``. A file is complete when it has its name; before that it begins with a dot."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: set[str] = set()

    def new(self) -> list[str]:
        lines: list[str] = []
        for path in sorted(self._folder.glob("[!._]*")):
            if path.name not in self._seen:
                self._seen.add(path.name)
                lines += path.read_text().splitlines()
        return lines

    def close(self) -> None:
        """Nothing is open."""


class KafkaOutput:
    """A topic, as a consumer sees it that reads committed records only."""

    def __init__(self, address: str, topic: str) -> None:
        from confluent_kafka import Consumer

        settings = {
            "bootstrap.servers": address,
            "group.id": "playground-verdict",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,  # a broker that has just started is slow, and the client would tell
        }
        self._consumer: Any = Consumer(settings)
        self._consumer.subscribe([topic])

    def new(self) -> list[str]:
        messages = self._consumer.consume(10_000, timeout=0.05)
        return [message.value().decode() for message in messages if message.error() is None]

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._consumer.close()


class Outcome:
    """Every line that was published. Windows are numbered from 0; a line is ``window,page,clicks,total`` and, from the
    second version of the program, the milliseconds since the page's last window.

    :ivar counts: the clicks of each page, by window
    :ivar wrong: what should not be there, in words
    """

    def __init__(self) -> None:
        self.counts: dict[int, dict[str, int]] = {}
        self.wrong: list[str] = []
        self.lines = 0
        self.upgraded_lines = 0

    def add(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._add(line)

    @property
    def complete(self) -> int:
        """How many windows from the first one on have all their pages."""
        number = 0
        while len(self.counts.get(number, ())) == len(PAGES):
            number += 1
        return number

    def verdict(self) -> tuple[bool, str]:
        """Whether all is right, and a sentence that says so."""
        wrong = self.wrong + self._missing()
        if wrong:
            more = f" (and {len(wrong) - 5} more)" if len(wrong) > 5 else ""
            return False, f"The counts are wrong: {'; '.join(wrong[:5])}{more}."
        if not self.lines:
            return False, "The job has published nothing."
        return True, (
            f"{self.complete} windows, {len(PAGES)} pages, {self.lines:,} counts: each is exactly {PER_WINDOW}, none "
            "is missing, none came twice, and the totals never lost a click."
        )

    def _add(self, line: str) -> None:
        at, page, *numbers = line.split(",")
        window, clicks, total = int(at) // WINDOW, int(numbers[0]), int(numbers[1])
        self.lines += 1
        self.upgraded_lines += len(numbers) == 3
        pages = self.counts.setdefault(window, {})
        if page in pages:
            self.wrong.append(f"window {window} of {page} came twice")
        if page not in PAGES or int(at) % WINDOW:
            self.wrong.append(f"nobody made the clicks of {line!r}")
        if clicks != PER_WINDOW:
            self.wrong.append(f"window {window} of {page} has {clicks} clicks")
        if total != PER_WINDOW * (window + 1):
            self.wrong.append(f"the total of {page} after window {window} is {total}")
        if len(numbers) == 3 and int(numbers[2]) not in (0, WINDOW):
            self.wrong.append(f"window {window} of {page} came {numbers[2]} ms after the one before it")
        pages[page] = clicks

    def _missing(self) -> list[str]:
        return [
            f"window {window} of {page} is missing"
            for window in range(max(self.counts, default=-1) + 1)
            for page in PAGES
            if page not in self.counts.get(window, ())
        ]
