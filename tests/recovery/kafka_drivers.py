"""Keyed sums from Kafka to Kafka: drivers to be killed, and what a ``read_committed`` consumer must see after them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from beadline.services import KafkaServer
from tests.connectors.kafka.topics import fill, make_topic, values
from tests.recovery.drivers import ROOT, Driver, newest_checkpoint
from tests.recovery.dying import VARIABLE

KEYS = 13
INTERVAL = "200 ms"


class SumsDriver(Driver):
    """Runs ``kafka_program.py`` with ``beadline run``."""

    def __init__(self, folder: Path, options: list[str], arguments: list[str], variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._before = newest_checkpoint(folder)
        self._log = folder / f"driver-{len(list(folder.glob('driver-*')))}.log"
        program = str(ROOT / "tests/recovery/kafka_program.py")
        command = [sys.executable, "-m", "beadline.cli.main", "run", *options, program, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        return self._process.pid


class Sums:
    """A topic of numbers, the job that adds them up by key, and the topic of its results.

    Number ``n`` has the key ``n % KEYS``; numbers of a key lie in one partition, in order.
    """

    def __init__(self, kafka: KafkaServer, folder: Path, records: int, drivers: list[Driver]) -> None:
        self.kafka = kafka
        self.folder = folder
        self.records = records
        self.drivers = drivers
        self.timeout = 60_000
        self.interval = INTERVAL
        self.source = make_topic(kafka, "numbers", 4)
        self.target = make_topic(kafka, "sums", 3)
        numbers = range(records)
        fill(kafka, self.source, [f"{n % KEYS} {n}" for n in numbers], [str(n % KEYS) for n in numbers])

    def start(
        self,
        pace: float = 0.0,
        dies: str | None = None,
        parallelism: int = 2,
        engine: str = "local",
        resume: str = "latest",
        **variables: str,
    ) -> SumsDriver:
        """A driver, which goes on where the one before it was."""
        settings = {
            "execution.checkpointing.interval": self.interval,
            "execution.checkpointing.dir": str(self.folder / "checkpoints"),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        }
        if pace:
            settings["beadline.step.max-records"] = str(self.records // 40)
        options = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
        options += ["--engine", engine, "-p", str(parallelism)]
        if newest_checkpoint(self.folder):
            options += ["-s", resume]
        arguments = [self.kafka.bootstrap_servers, self.source, self.target, str(pace), str(self.timeout)]
        if dies is not None:
            variables[VARIABLE] = dies
        driver = SumsDriver(self.folder, options, arguments, variables)
        self.drivers.append(driver)
        return driver

    def finish(self, parallelism: int = 2, engine: str = "local") -> SumsDriver:
        """Run it to its end."""
        driver = self.start(parallelism=parallelism, engine=engine)
        assert driver.end() == 0, driver
        return driver

    def seen(self) -> list[str]:
        """What a ``read_committed`` consumer sees."""
        return values(self.kafka, self.target)

    def wait_for_more(self, driver: SumsDriver, than: int) -> None:
        driver.wait_until(lambda: len(self.seen()) > than, f"more than {than} results")

    def problems(self, lines: list[str], whole: bool = True) -> list[str]:
        """What is wrong with these results: each key's must be the beginning of its series, or all of it."""
        found: dict[int, list[str]] = defaultdict(list)
        for line in lines:
            found[int(line.split()[0])].append(line)
        problems = []
        for key in range(KEYS):
            expected = self._series(key)
            got = found[key]
            if got != (expected if whole else expected[: len(got)]):
                place = next((i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), len(got))
                problems.append(
                    f"key {key}: {len(got)} of {len(expected)}, differs at {place}: {got[place : place + 3]}"
                )
        return problems

    def _series(self, key: int) -> list[str]:
        total, lines = 0, []
        for number in range(key, self.records, KEYS):
            total += number
            lines.append(f"{key} {number} {total}")
        return lines

    def open_transactions(self) -> list[str]:
        """Of this job, at once or within a few seconds: who ends them need not be asked twice."""
        from beadline.connectors.kafka.transactions import KafkaTransactions

        transactions = KafkaTransactions({"bootstrap.servers": self.kafka.bootstrap_servers})
        until = time.monotonic() + 5
        while (found := transactions.list_open(f"sums-{self.target}")) and time.monotonic() < until:
            time.sleep(0.2)
        return found
