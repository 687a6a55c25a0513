"""The registry of running jobs: files that tell the truth, also after their process was killed."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from beadline.checkpoint.ownership.process import this_process
from beadline.master.client import registry
from beadline.master.client.registry import Entry, JobNotFoundError

FIRST = "aa11" + "0" * 28
SECOND = "ab22" + "0" * 28
GONE = {"pid": 2**22 - 1, "process_started": "1"}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path / "state"))
    return tmp_path / "state"


def entry(job_id: str = FIRST, name: str = "clicks", **changes: object) -> Entry:
    made = Entry(
        job_id=job_id,
        name=name,
        port=8081,
        url="http://127.0.0.1:8081",
        token="t" * 32,
        started_at=1,
        script="/home/me/job.py",
        argv=("--rate", "3"),
        engine="local",
        checkpoint_dir=None,
        **registry.here(),
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_a_job_is_found_by_id_by_its_beginning_and_by_name() -> None:
    registry.add(entry(FIRST, "clicks"))
    registry.add(entry(SECOND, "orders"))
    for text in (FIRST, "aa", "clicks", "cl"):
        assert registry.find(text) == entry(FIRST, "clicks")


def test_an_ambiguous_or_unknown_name_is_answered_with_what_there_is() -> None:
    registry.add(entry(FIRST, "clicks"))
    registry.add(entry(SECOND, "clicks"))
    with pytest.raises(JobNotFoundError, match=f"(?s)any of these jobs.*{FIRST}.*{SECOND}"):
        registry.find("clicks")
    with pytest.raises(JobNotFoundError, match="any of these jobs"):
        registry.find("a")
    with pytest.raises(JobNotFoundError, match=f"(?s)'visits'. These run:.*{FIRST}  clicks"):
        registry.find("visits")
    with pytest.raises(JobNotFoundError, match="''"):
        registry.find("")


def test_without_jobs_the_message_says_where_it_looked(state: Path) -> None:
    with pytest.raises(JobNotFoundError, match=f"nor any other.*{state / 'jobs'}"):
        registry.find("clicks")


def test_only_the_user_can_read_it(state: Path) -> None:
    state.mkdir(mode=0o755)
    registry.add(entry())
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (state, state / "jobs", state / "jobs" / f"{FIRST}.json")]
    assert modes == [0o700, 0o700, 0o600]


def test_a_job_whose_process_is_gone_is_not_listed_and_its_file_removed(state: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    registry.add(entry(FIRST, pid=process.pid, process_started=started))
    registry.add(entry(SECOND))
    assert [found.job_id for found in registry.entries()] == [FIRST, SECOND]
    process.kill()
    process.wait()
    assert [found.job_id for found in registry.entries()] == [SECOND]
    assert [path.stem for path in (state / "jobs").iterdir()] == [SECOND]


def test_another_process_with_the_same_number_is_not_taken_for_the_job() -> None:
    registry.add(entry(process_started="1"))
    assert registry.entries() == []


def test_a_job_of_before_the_machine_was_started_again_is_gone(state: Path) -> None:
    host, _, space = this_process().place.split()
    registry.add(entry(place=f"{host} another-boot {space}"))
    assert registry.entries() == []
    assert list((state / "jobs").iterdir()) == []


def test_a_job_of_another_machine_is_neither_listed_nor_touched(state: Path) -> None:
    """The home directory may be shared."""
    registry.add(entry(place="elsewhere boot space"))
    assert registry.entries() == []
    assert len(list((state / "jobs").iterdir())) == 1


def test_files_that_are_no_entries_disturb_nobody(state: Path) -> None:
    registry.add(entry())
    folder = state / "jobs"
    (folder / "broken.json").write_text("{")
    (folder / "list.json").write_text("[]")
    (folder / "older.json").write_text(json.dumps({"job_id": "older"}))
    assert [found.job_id for found in registry.entries()] == [FIRST]


def test_the_end_of_a_job_does_not_remove_the_file_of_a_driver_that_took_it_over(state: Path) -> None:
    registry.add(entry(pid=os.getppid(), process_started=""))
    registry.remove(FIRST)
    assert (state / "jobs" / f"{FIRST}.json").exists()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"BEADLINE_STATE_DIR": "/a", "XDG_STATE_HOME": "/b"}, "/a"),
        ({"XDG_STATE_HOME": "/b"}, "/b/beadline"),
        ({"HOME": "/home/me"}, "/home/me/.local/state/beadline"),
    ],
)
def test_where_the_files_are(variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BEADLINE_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(registry.state_directory()) == expected


class TestJobsWhoseDriversWereKilled:
    def test_they_wait_for_the_archive_without_their_tokens(self, state: Path) -> None:
        registry.add(entry(SECOND, started_at=2, history_jobs=50, **GONE))
        registry.add(entry(FIRST, started_at=1, history_jobs=50, **GONE))
        assert registry.entries() == []
        lost = registry.lost()
        assert [each.job_id for each in lost] == [FIRST, SECOND]
        assert [each.token for each in lost] == [None, None]
        assert stat.S_IMODE((state / "lost" / f"{FIRST}.json").stat().st_mode) == 0o600
        registry.forget(lost[0])
        assert [each.job_id for each in registry.lost()] == [SECOND]

    def test_one_that_another_driver_goes_on_with_is_not_lost(self) -> None:
        registry.add(entry(history_jobs=50, **GONE))
        assert registry.entries() == []
        registry.add(entry())
        assert registry.lost() == []
        registry.remove(FIRST)
        assert registry.lost() == [], "it has ended in good order"

    def test_no_more_are_kept_than_the_archive_would_keep(self, state: Path) -> None:
        registry.add(entry(FIRST, history_jobs=0, **GONE))
        assert registry.lost() == []
        for number in range(3):
            registry.add(entry(f"{number}" * 32, started_at=number, history_jobs=2, **GONE))
            registry.entries()
        assert [each.started_at for each in registry.lost()] == [1, 2]
