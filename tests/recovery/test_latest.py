"""Programs of the same shape in one checkpoint directory, in every order of kill and resume: none gets another's state.

What is refused needs no Spark: it is asked for without Java.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.recovery.drivers import PATIENCE, ROOT
from tests.recovery.jobs import STEP
from tests.recovery.twin import HOLD, differences

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

RECORDS = 20 * STEP
FACTORS = {"a": 1, "b": 1000}


@dataclass
class Twins:
    """Programs a and b, which share a checkpoint directory."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, factor in FACTORS.items():
            (self.folder / f"{name}.py").write_text(f"from tests.recovery.twin import main\nmain({factor})\n")

    @property
    def directory(self) -> Path:
        return self.folder / "checkpoints"

    def hold(self, name: str) -> None:
        """Keep a program from finishing."""
        (self.folder / name).mkdir()
        (self.folder / name / HOLD).touch()

    def run(self, name: str, *options: str, java: bool = True) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "beadline.cli.main",
            "run",
            "-D",
            f"execution.checkpointing.dir={self.directory}",
        ]
        command += [*options, str(self.folder / f"{name}.py"), str(self.folder / name), str(RECORDS)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "BEADLINE_MASTER": "local[2]"}
        if not java:
            environment["JAVA_HOME"] = str(self.folder / "no-java")
        log = (self.folder / f"log-{len(self.started)}").open("w+")
        process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log, text=True)
        process.log = log  # type: ignore[attr-defined]
        self.started.append(process)
        return process

    def said(self, process: subprocess.Popen[str]) -> str:
        return Path(process.log.name).read_text(errors="replace")  # type: ignore[attr-defined]

    def refused(self, name: str, *options: str, code: int = 1) -> str:
        """Start one that must not start, and give what it says."""
        before = self.files()
        process = self.run(name, "-s", "latest", *options, java=False)
        assert process.wait(PATIENCE) == code, self.said(process)
        said = self.said(process).strip()
        assert len(said.splitlines()) <= 10, said
        assert "Traceback" not in said
        assert {path for path in before if "lease" in path} == {path for path in self.files() if "lease" in path}
        return said

    def files(self) -> set[str]:
        return {str(path.relative_to(self.directory)) for path in self.directory.rglob("*") if path.is_file()}

    def move(self, job: str) -> None:
        """Let the newest lease of a job name a driver on another machine."""
        path = max(self.directory.glob(f"{job}/lease-*"))
        note = json.loads(path.read_text())
        note["process"]["place"] = "another-machine"
        path.write_text(json.dumps(note))

    def checkpoints(self) -> dict[str, set[int]]:
        """The numbers of completed checkpoints, by job."""
        found: dict[str, set[int]] = {}
        for path in self.directory.glob("*/chk-*/_metadata"):
            found.setdefault(path.parts[-3], set()).add(int(path.parts[-2][4:]))
        return found

    def wait_for_checkpoint(self, process: subprocess.Popen[str]) -> str:
        """Wait for the second checkpoint of a new job, and give the job."""
        before = self.checkpoints()
        until = time.monotonic() + PATIENCE
        while True:
            for found, numbers in self.checkpoints().items():
                if found not in before and max(numbers) > 1:
                    return found
            assert process.poll() is None, self.said(process)
            assert time.monotonic() < until, self.said(process)
            time.sleep(0.02)

    def wait_for(self, process: subprocess.Popen[str], text: str) -> None:
        until = time.monotonic() + PATIENCE
        while text not in self.said(process):
            assert process.poll() is None, self.said(process)
            assert time.monotonic() < until, self.said(process)
            time.sleep(0.02)

    def kill(self, process: subprocess.Popen[str]) -> None:
        assert process.poll() is None, self.said(process)
        process.kill()
        process.wait()


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[Twins]:
    made = Twins(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.log.close()  # type: ignore[attr-defined]


def test_two_programs_in_one_checkpoint_directory(twins: Twins) -> None:
    # Nothing has ever run.
    assert "'latest' found no checkpoint of this program" in twins.refused("a")

    twins.hold("a")
    twins.hold("b")

    # A runs. Nobody takes its job from it, also not while it hears nothing.
    a1 = twins.run("a")
    first = twins.wait_for_checkpoint(a1)
    said = twins.refused("a")
    assert re.search(
        rf"job 'Flink Streaming Job' \({first}\), which still runs: \S+ \(process {a1.pid}\) since 20", said
    )
    a1.send_signal(signal.SIGSTOP)
    assert "which still runs" in twins.refused("a")
    a1.send_signal(signal.SIGCONT)
    twins.move(first)
    said = twins.refused("a")
    assert "watching for up to 12 s whether that driver is alive" in said
    assert "which still runs" in said, "its beat goes on"

    # A is killed. B has never run: A's checkpoint is not B's.
    twins.kill(a1)
    said = twins.refused("b")
    assert f"'latest' found no checkpoint of this program ('Flink Streaming Job', {twins.folder}/b.py " in said
    assert re.search(
        rf"\n  {first}: .*{twins.folder}/a\.py .*/{first}/chk-\d+ of 20.* UTC, last run elsewhere by \S+ ", said
    )

    # B runs, and A begins again without -s: now there are two jobs of A, both dead.
    b1 = twins.run("b")
    other = twins.wait_for_checkpoint(b1)
    shutil.rmtree(twins.folder / "a")
    twins.hold("a")
    a2 = twins.run("a")
    second = twins.wait_for_checkpoint(a2)
    twins.kill(a2)
    said = twins.refused("a")
    assert "could mean any of 2 jobs of this program" in said
    assert [line.split(":")[0].strip() for line in said.splitlines()[1:3]] == [second, first]
    assert other not in said
    shutil.rmtree(twins.directory / first)

    # A was killed, B runs, A goes on: from its own state, and B does not notice.
    a3 = twins.run("a", "-s", "latest")
    twins.wait_for(a3, f"restored from {twins.directory}/{second}/chk-")
    assert b1.poll() is None
    assert sorted(path for path in twins.files() if "lease" in path) == sorted(
        [f"{second}/lease-1", f"{second}/lease-2", f"{other}/lease-1"]
    )

    # Both are killed, and each goes on to its end.
    twins.kill(a3)
    twins.kill(b1)
    twins.move(other)
    for name in FACTORS:
        (twins.folder / name / HOLD).unlink()
    last = {name: twins.run(name, "-s", "latest") for name in ("b", "a")}
    for name, process in last.items():
        assert process.wait(PATIENCE) == 0, twins.said(process)
        job = {"a": second, "b": other}[name]
        assert f"restored from {twins.directory}/{job}/chk-" in twins.said(process)
        assert differences(twins.folder / name, FACTORS[name], RECORDS) == [], name
    assert "watching for up to 12 s" in twins.said(last["b"]), "its beat stood still"

    # Both have finished: a note is left, and whoever starts them again has nothing left to do.
    assert twins.files() == {f"{second}/ended", f"{other}/ended"}
    said = twins.refused("a", code=0)
    assert said.startswith(f"job 'Flink Streaming Job' ({second}) finished at 20")
    assert "there is nothing to go on from. Start it without -s to run it again" in said
