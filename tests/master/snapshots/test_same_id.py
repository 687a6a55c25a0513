"""Jobs whose id the user has chosen, one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from beadline.checkpoint.ends import End
from beadline.common import Configuration, Encoder
from beadline.common.typeinfo import Types
from beadline.connectors.transactions import Entry
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.file_system import FileSink
from beadline.errors import JobExecutionError
from tests.connectors.transactions.ledger import Journal
from tests.connectors.transactions.test_committer import RUN, Driver
from tests.master.snapshots.local_jobs import LocalJob, rows, rows_in


class Remembering(Journal):
    """Leaves out what is not newer than the newest of its writer's subtask, as the upsert sink of PostgreSQL does."""

    newest: ClassVar[dict[tuple[str, int], int]] = {}

    def append(self, entry: Entry, batches: object) -> None:
        if entry.number > self.newest.get((entry.writer, entry.subtask), -1):
            self.newest[entry.writer, entry.subtask] = entry.number
            super().append(entry, batches)


@pytest.mark.parametrize("epoch", [0, 1], ids=["in memory", "in a folder that was removed"])
def test_a_job_that_starts_from_its_own_savepoint_again(
    epoch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the same id, and nothing is left of the drivers before it that counted epochs."""
    monkeypatch.setattr("tests.connectors.transactions.test_committer.Journal", Remembering)
    old = Driver(tmp_path, RUN, epoch=epoch, log=True)
    old.stage("1")
    assert old.publish(old.ready()) == []
    saved = old.committer.portable(old.committer.snapshot(), [])
    for row in ("2", "3"):  # it goes on for a while after the savepoint
        old.stage(row)
        assert old.publish(old.ready()) == []
    new = Driver(tmp_path, RUN, epoch=epoch, log=True)
    new.committer.restore(saved, [])
    new.stage("2", "3", "4")  # steps are cut in another way
    assert new.publish(new.ready()) == []
    assert "4" in new.seen()


def write(text: list[str], folder: Path) -> None:
    configuration = Configuration()
    configuration.set_string("beadline.job-id", "nightly")
    configuration.set_string("execution.checkpointing.interval", "50 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    sink = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).build()
    env.from_collection(text, Types.STRING()).sink_to(sink)
    env.execute("nightly")


def test_a_job_with_a_chosen_id_runs_twice(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(["monday"], out)
    write(["friday"], out)
    found = sorted(
        line for path in out.rglob("part-*") if ".staging" not in str(path) for line in path.read_text().split()
    )
    assert found == ["friday", "monday"]


@pytest.mark.parametrize("checkpoints", [0, 1])
def test_a_job_that_fails_takes_back_no_files_of_its_namesake(checkpoints: int, tmp_path: Path) -> None:
    """The one before has finished, and its files are everybody's."""
    monday = LocalJob(tmp_path, job_id="nightly")
    for _ in range(3):
        monday.step()
        monday.checkpoint()
    assert monday.finish() is End.FINISHED
    friday = LocalJob(tmp_path, job_id="nightly")
    friday.step()
    for _ in range(checkpoints):
        friday.checkpoint()
    friday.engine.failures["step"] = [JobExecutionError("a bad record")]
    friday.step()
    assert friday.finish() is End.FINISHED
    assert rows_in(tmp_path / "out") == sorted(rows(9) + rows(6))


def test_another_file_of_the_same_size_is_not_ours(tmp_path: Path) -> None:
    from beadline.connectors.files.renaming import publish_file

    source, target = tmp_path / "a" / "b" / "ready", tmp_path / "part"
    source.parent.mkdir(parents=True)
    source.write_text("friday")
    target.write_text("monday")
    with pytest.raises(FileExistsError):
        publish_file({"source": str(source), "target": str(target), "size": 6})
    assert source.read_text() == "friday"
