"""``-s latest`` and chosen job ids from the command line. What is refused is refused at once: here is no Java."""

from __future__ import annotations

import json

import pytest

JOB = """
from beadline.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(1000)
env.from_collection([1, 2, 3]).print()
env.execute()
"""


@pytest.fixture
def run(beadline, write, monkeypatch, tmp_path):
    write("job.py", JOB)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))

    def run(*options):
        return beadline("run", "-D", f"execution.checkpointing.dir={tmp_path}/cp", *options, "job.py")

    return run


def test_a_job_that_has_finished_is_no_failure(run, write):
    program = {"script": "/jobs/job.py", "arguments": [], "graph": "0f"}
    note = {"job_id": "orders", "job_name": "orders", "time": 5000, "epoch": 1, "chosen_id": True, "program": program}
    write("cp/orders/ended", json.dumps(note))

    result = run("-s", "latest", "-D", "beadline.job-id=orders")

    assert result.stderr == (
        "job 'orders' (orders) finished at 1970-01-01 00:00:05 UTC: there is nothing to go on from. Start it without "
        "-s to run it again; if it was stopped with a savepoint, name that with -s PATH\n"
    )
    assert result.returncode == 0


def test_a_job_that_never_ran_is_one(run, tmp_path):
    result = run("-s", "latest")

    program = f"'Flink Streaming Job', {tmp_path}/job.py"
    assert result.stderr.startswith(
        f"error: 'latest' found no checkpoint of this program ({program}) in {tmp_path}/cp: it never took one there"
    )
    assert len(result.stderr.splitlines()) == 2
    assert result.returncode == 1
    assert not (tmp_path / "cp").exists()


def test_an_id_that_can_not_be_one(run):
    result = run("-D", "beadline.job-id=a/b")

    assert "error: beadline.job-id: A job id has at most 64 letters, digits, '-' and '_'" in result.stderr
    assert result.returncode == 1
