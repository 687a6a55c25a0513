"""``beadline checkpoints``: what lies in checkpoint directories, whether it is whole, and what can go."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.cli.main import app
from tests.state_processor.everything import running

Command = Callable[..., Result]


@pytest.fixture
def checkpoints() -> Command:
    def run(*args: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["checkpoints", *args])
        assert result.exit_code == code, result.output
        return result

    return run


def options(folder: Path) -> dict[str, str]:
    return {
        "execution_checkpointing_dir": str(folder),
        "execution_checkpointing_interval": "1h",
        "execution_checkpointing_data__inline__threshold": "0",
        "execution_checkpointing_num__retained": "2",
        "execution_checkpointing_externalized__checkpoint__retention": "RETAIN_ON_CANCELLATION",
    }


@pytest.fixture(scope="module")
def ended(local_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint directory with two checkpoints and a savepoint of a job that has ended."""
    folder = tmp_path_factory.mktemp("ended")
    with running(2, **options(folder)) as master:
        for _ in range(2):
            master.trigger(CheckpointKind.CHECKPOINT).result(20)
        master.trigger(CheckpointKind.SAVEPOINT, str(folder)).result(20)
    return folder


@pytest.fixture
def directory(ended: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ended, tmp_path / "checkpoints"))


@pytest.fixture
def job(directory: Path) -> Path:
    (folder,) = [path.parent for path in directory.rglob("chk-1")]
    return folder


def test_checkpoints_and_savepoints_of_a_directory_are_listed(checkpoints: Command, directory: Path, job: Path) -> None:
    found = json.loads(checkpoints("list", str(directory), "--json").stdout)["checkpoints"]
    assert [(each["kind"], each["id"]) for each in found] == [("checkpoint", 2), ("checkpoint", 1), ("savepoint", 3)]
    assert {each["job_id"] for each in found} == {job.name}
    lines = checkpoints("list", str(job)).stdout.splitlines()
    assert len(lines) == 3
    assert str(job / "chk-2") in lines[1]


def test_running_jobs_are_listed_by_name(checkpoints: Command, tmp_path: Path, local_engine: None) -> None:
    with running(2, **options(tmp_path)) as master:
        master.trigger(CheckpointKind.CHECKPOINT).result(20)
        for args in (["everything"], [master.job_id[:6]], []):
            found = json.loads(checkpoints("list", *args, "--json").stdout)["checkpoints"]
            assert [each["path"] for each in found] == [str(tmp_path / master.job_id / "chk-1")]


def test_a_job_without_a_directory_keeps_them_in_memory(checkpoints: Command, local_engine: None) -> None:
    with running(1):
        error = checkpoints("list", "everything", code=1).stderr
    assert "keeps its checkpoints in the driver's memory: execution.checkpointing.dir is not set" in error


def test_inspecting_shows_operators_subtasks_and_files(checkpoints: Command, job: Path) -> None:
    found = json.loads(checkpoints("inspect", str(job), "--json").stdout)
    assert found["id"] == 2
    operators = {operator["uid"]: operator for operator in found["operators"]}
    assert [subtask["subtask"] for subtask in operators["shop"]["subtasks"]] == [0, 1]
    assert all(subtask["keyed_bytes"] > 1000 for subtask in operators["shop"]["subtasks"])
    assert sum(subtask["operator_bytes"] for subtask in operators["seen"]["subtasks"]) > 0
    assert len(found["file_list"]) == found["files"]
    assert all(Path(file["path"]).stat().st_size == file["bytes"] for file in found["file_list"])
    shown = checkpoints("inspect", str(job / "chk-1")).stdout
    assert "checkpoint 1 of 'everything'" in shown
    assert found["file_list"][0]["path"] in shown


def test_what_is_whole_is_ok(checkpoints: Command, directory: Path, job: Path) -> None:
    lines = checkpoints("verify", str(directory)).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ok"] * 3


@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "metadata"])
def test_damage_is_found_and_gives_exit_code_1(checkpoints: Command, job: Path, damage: str) -> None:
    file = next((job / "shared").rglob("*.run"))
    if damage == "changed":
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "missing":
        file.unlink()
    else:
        file = job / "chk-1" / "_metadata"
        file.write_bytes(file.read_bytes().replace(b'"step": ', b'"step":  '))
    found = json.loads(checkpoints("verify", str(job), "--json", code=1).stdout)["checked"]
    problems = [problem for each in found for problem in each["problems"]]
    assert problems
    assert all(str(file) in problem for problem in problems)
    assert "damaged" in checkpoints("verify", str(job / "chk-1"), code=1).stdout


def test_pruning_lists_first_and_removes_with_yes(checkpoints: Command, directory: Path, job: Path) -> None:
    orphan = job / "shared" / "1" / f"{'a' * 32}.run"
    orphan.write_bytes(b"x" * 1234)
    result = checkpoints("prune", str(directory))
    assert "1.2 kB" in result.stdout
    assert "Nothing was removed: --yes does that" in result.stderr
    assert orphan.exists()
    (found,) = json.loads(checkpoints("prune", str(directory), "--yes", "--json").stdout)["jobs"]
    assert found["removed"]
    assert [file["path"] for file in found["files"]] == [str(orphan)]
    assert not orphan.exists()
    checkpoints("verify", str(directory))


def test_a_running_job_is_never_pruned(checkpoints: Command, tmp_path: Path, local_engine: None) -> None:
    with running(2, **options(tmp_path)) as master:
        orphan = tmp_path / master.job_id / "shared" / "1" / f"{'a' * 32}.run"
        orphan.write_bytes(b"x")
        result = checkpoints("prune", str(tmp_path), "--yes")
        assert "the job runs: " in result.stdout
        assert orphan.exists()


def test_a_folder_without_jobs_is_refused(checkpoints: Command, tmp_path: Path) -> None:
    assert "there is no job in" in checkpoints("prune", str(tmp_path), code=1).stderr
