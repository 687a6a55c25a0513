"""Who may look into the folders of jobs and savepoints."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Command

JOB = """
    import time
    from beadline.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_sequence(1, 10**9).uid("numbers").map(lambda number: (number % 7, 1))
    numbers.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1])).uid("sum").print()
    client = env.execute_async("rights")
    while not client.get_checkpoint_statistics():
        time.sleep(0.05)
    print(client.trigger_savepoint("savepoints").result())
    client.cancel().result()
"""


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BEADLINE_ENGINE", "local")
    monkeypatch.setenv("BEADLINE_STATE_DIR", str(tmp_path / "state"))


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("option", "expected"), [(None, 0o700), ("0770", 0o770), ("2750", 0o2750), ("umask", None)], ids=str
)
def test_folders_have_the_rights_that_the_option_says(
    beadline: Command, write, tmp_path: Path, option: str | None, expected: int | None
) -> None:
    by_umask = 0o777 & ~_umask()
    write("job.py", JOB)
    given = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.data-inline-threshold": "0",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "beadline.job-id": "x1",
        "beadline.source.max-records-per-second": "1000",
        **({"beadline.checkpointing.folder-mode": option} if option else {}),
    }
    done = beadline("run", "-q", *(word for key, value in given.items() for word in ("-D", f"{key}={value}")), "job.py")
    assert done.returncode == 0, done.stderr
    (savepoint,) = (tmp_path / "savepoints").iterdir()
    job = tmp_path / "checkpoints" / "x1"
    own = by_umask if expected is None else expected
    assert [rights(each) for each in (job, job / "shared", job / "shared" / "1", savepoint)] == [own] * 4
    assert rights(tmp_path / "checkpoints") == rights(tmp_path / "savepoints") == by_umask, "the user's own folders"


@pytest.mark.parametrize("option", ["rwx", "0500", "4700", "7777", "77"])
def test_rights_with_which_nothing_works_are_refused(beadline: Command, write, option: str) -> None:
    write("job.py", JOB)
    done = beadline("run", "-D", f"beadline.checkpointing.folder-mode={option}", "job.py")
    assert done.returncode == 1
    assert "such as 0700, 0770 or 2770, or umask" in done.stderr


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found
