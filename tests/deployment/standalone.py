"""A cluster of Spark's own kind on loopback: one master, two workers with one core each."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pyspark

from beadline.services.guard import Guard

SPARK_HOME = Path(pyspark.__file__).parent
_START_SECONDS = 60
_guard = Guard()


class StandaloneCluster:
    """What the scripts in Spark's ``sbin`` start, as processes that end with the test.

    :param environment: of the workers, and so of all Python processes that executors start
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], workers: int = 2) -> None:
        self._folder = folder
        self._environment = {**environment, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
        self._number = workers
        self._port = _free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        try:
            at = ["--host", "127.0.0.1", "--webui-port", "0"]
            self._start("master", "org.apache.spark.deploy.master.Master", *at, "--port", str(self._port))
            self._wait("master", "I have been elected leader")
            for number in range(self._number):
                work = ["--work-dir", str(self._folder / f"work-{number}")]
                limits = ["--cores", "1", "--memory", "600m"]
                name = f"worker-{number}"
                self._start(name, "org.apache.spark.deploy.worker.Worker", *at, *limits, *work, self.url)
            for number in range(self._number):
                self._wait(f"worker-{number}", "Successfully registered with master")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            _guard.forget(process.pid)

    def submit(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """``spark-submit --master URL ARGUMENTS``."""
        small = ["--driver-memory", "512m", "--executor-memory", "512m", "--conf", "spark.ui.enabled=false"]
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url, *small, *arguments]
        return subprocess.run(command, cwd=cwd, env=self._environment, capture_output=True, text=True, timeout=150)

    def executors(self) -> int:
        """How many have been started so far, on all workers."""
        logs = [self._folder / f"worker-{number}.log" for number in range(self._number)]
        return sum(log.read_text(errors="replace").count("Asked to launch executor") for log in logs)

    def _start(self, name: str, *command: str) -> None:
        with open(self._folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [str(SPARK_HOME / "bin" / "spark-class"), *command],
                env={**self._environment, "SPARK_DAEMON_MEMORY": "192m"},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        _guard.watch(process.pid)

    def _wait(self, name: str, text: str) -> None:
        log = self._folder / f"{name}.log"
        deadline = time.monotonic() + _START_SECONDS
        while text not in log.read_text(errors="replace"):
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._processes):
                raise AssertionError(f"{name} did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind(("127.0.0.1", 0))
        return int(candidate.getsockname()[1])
