"""Running jobs, seen and changed from another terminal: real drivers on the local engine, real commands."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beadline.master.client import registry
from tests.cli.conftest import Command

JOB = """
    import sys
    from beadline.common import Types
    from beadline.datastream import StreamExecutionEnvironment
    from beadline.datastream.functions import KeyedProcessFunction
    from beadline.datastream.state import ValueStateDescriptor


    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, value, ctx):
            self.total.update((self.total.value() or 0) + 1)
            yield self.total.value()


    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(200)
    numbers = env.from_sequence(1, int(sys.argv[2])).uid("numbers")
    counted = numbers.key_by(lambda value: value % 10, Types.LONG()).process(Count()).uid("count").name("count")
    counted.filter(lambda total: total % 50 == 0).print().uid("out")
    env.execute(sys.argv[1])
"""
SLOW = ["-D", "beadline.source.max-records-per-second=500", "-D", "beadline.step.target=200 ms"]
ENDLESS = "100000000"

Submit = Callable[..., str]


@pytest.fixture(autouse=True)
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEADLINE_STATE_DIR", str(tmp_path / "the state"))
    monkeypatch.setenv("BEADLINE_ENGINE", "local")


@pytest.fixture
def submit(beadline: Command, write: Callable[[str, str], Path], tmp_path: Path) -> Iterator[Submit]:
    """Start a job that runs until it is stopped, in a process of its own; gives its id."""
    write("my jobs/job.py", JOB)

    def start(name: str = "counting", *options: str, records: str = ENDLESS) -> str:
        places = ["-D", f"state.checkpoints.dir={tmp_path / 'check points'}"]
        done = beadline("run", "-d", *SLOW, *places, *options, "my jobs/job.py", name, records)
        assert done.returncode == 0, done.stderr
        found = re.fullmatch(r"Job has been submitted with JobID ([0-9a-f]{32})\n", done.stdout)
        assert found is not None, done.stdout
        return found[1]

    yield start
    for entry in registry.entries():
        os.kill(entry.pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def test_the_life_of_a_job_as_the_second_terminal_sees_it(ask: Command, submit: Submit, tmp_path: Path) -> None:
    assert ask("list").stdout == "No running jobs.\n"
    job = submit("counting orders")

    listed = ask("list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert [job, "counting", "orders", "RUNNING"] in [line.split()[:4] for line in listed.stdout.splitlines()]
    (running,) = registry.entries()
    assert f"dashboard of counting orders: {running.url}/\n" in listed.stdout, "its token is shown on a terminal only"
    (entry,) = json.loads(ask("list", "-r", "--json").stdout)["jobs"]
    assert (entry["jid"], entry["name"], entry["state"]) == (job, "counting orders", "RUNNING")
    assert entry["beadline"]["engine"] == "local"
    assert entry["dashboard"] == f"{running.url}/"
    assert json.loads(ask("list", "-s", "--json").stdout) == {"jobs": []}

    status = ask("status", "counting orders")
    assert status.returncode == 0, status.stderr
    assert "RUNNING" in status.stdout
    assert "#token" not in status.stdout  # it goes to a file here

    taken = ask("savepoint", job[:8], "save points")
    assert taken.returncode == 0, taken.stderr
    path = re.search(r"^Savepoint completed\. Path: (.+)$", taken.stdout, re.MULTILINE)
    assert path is not None
    assert path[1].startswith(str(tmp_path / "save points" / f"savepoint-{job[:6]}-"))
    assert ask("savepoint", "show", path[1]).returncode == 0

    done = ask("checkpoint", job)
    assert re.search(rf"^Checkpoint\(CONFIGURED\) \d+ for job {job} completed\.$", done.stdout, re.MULTILINE)

    stopped = ask("stop", "-p", "save points", job)
    assert stopped.returncode == 0, stopped.stderr
    path = re.search(r"^Savepoint completed\. Path: (.+)$", stopped.stdout, re.MULTILINE)
    assert path is not None
    assert ask("list").stdout == "No running jobs.\n"
    assert "FINISHED" in ask("list", "-a").stdout
    assert "FINISHED" in ask("status", job).stdout

    resumed = submit("counting orders", "-s", path[1])
    wait_until(lambda: json.loads(ask("status", resumed, "--json").stdout)["beadline"]["step"] > 0)
    read = json.loads(ask("status", resumed, "--json").stdout)["beadline"]["records"]
    assert read > json.loads(ask("status", job, "--json").stdout)["beadline"]["records"]
    cancelled = ask("cancel", resumed)
    assert cancelled.stdout == f"Cancelling job {resumed}.\nCancelled job {resumed}.\n"
    wait_until(lambda: registry.entries() == [])  # it ends a moment after its job


@pytest.mark.slow
def test_cancel_with_a_savepoint_as_flink_writes_it(ask: Command, submit: Submit, tmp_path: Path) -> None:
    """``cancel -s [targetDirectory] jobId``"""
    job = submit("first")
    done = ask("cancel", "-s", str(tmp_path / "here"), job)
    path = re.search(
        rf"^Cancelled job {job}\. Savepoint stored in ({tmp_path}/here/savepoint-\S+)\.$", done.stdout, re.M
    )
    assert path is not None, done.stdout + done.stderr

    other = submit("second", "-D", f"state.savepoints.dir={tmp_path / 'default'}", "-s", path[1])
    done = ask("cancel", "-s", other)
    assert f"Savepoint stored in {tmp_path}/default/savepoint-" in done.stdout, done.stderr

    third = submit("third")
    done = ask("cancel", "-s", third)
    assert done.returncode == 1
    assert "a savepoint needs a directory" in done.stderr
    assert "execution.checkpointing.savepoint-dir" in done.stderr
    assert "RUNNING" in ask("list").stdout


@pytest.mark.slow
def test_jobs_that_nobody_knows_or_too_many_have_the_name(ask: Command, submit: Submit) -> None:
    first, second = submit("twin"), submit("twin")

    for command in (["cancel"], ["stop"], ["savepoint"], ["checkpoint"], ["status"], ["logs"]):
        none = ask(*command, "nobody")
        assert (none.returncode, none.stdout) == (3, ""), command
        assert "no job has the id or name 'nobody'. These run:" in none.stderr
        assert first in none.stderr
        assert second in none.stderr

    several = ask("cancel", "twin")
    assert several.returncode == 3
    assert "'twin' may be any of these jobs; give more of the id" in several.stderr
    assert len(registry.entries()) == 2
    assert ask("cancel", first).returncode == 0
    assert ask("cancel", "twin").returncode == 0


def test_a_driver_that_was_killed(ask: Command, submit: Submit, tmp_path: Path) -> None:
    job = submit("victim")
    (entry,) = registry.entries()
    wait_until(lambda: any((tmp_path / "check points" / job).glob("history-0")))
    os.kill(entry.pid, signal.SIGKILL)
    wait_until(lambda: not entry.is_alive)

    assert ask("list").stdout == "No running jobs.\n"
    assert not list((registry.state_directory() / "jobs").glob("*.json"))
    asked = ask("stop", job)
    assert asked.returncode == 3
    assert "no job" in asked.stderr
    assert ask("logs", job[:7], "--path").stdout.strip().endswith(f"{job}.log")
    assert "job 'victim'" in ask("logs", job).stdout

    # The history has what is known of it, and how to go on.
    assert [job, "victim", "SUSPENDED"] in [line.split()[:3] for line in ask("list", "-a").stdout.splitlines()]
    status = json.loads(ask("status", "victim", "--json").stdout)
    assert status["checkpoints"]["counts"]["completed"] > 0
    assert "count" in [vertex["name"] for vertex in status["vertices"]]
    told = status["exceptions"]["root-exception"]
    assert told.startswith(f"DriverLost: the driver, process {entry.pid} on {entry.host}, ended without a word\n")
    assert f"beadline run -s {status['beadline']['resume_from']} …" in told
    assert Path(status["beadline"]["resume_from"], "_metadata").exists()
    asked = ask("config", job)
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "its driver was killed" in asked.stderr
    assert entry.token not in "".join(path.read_text() for path in registry.state_directory().rglob("*.json"))


@pytest.mark.slow
def test_a_driver_that_hangs(ask: Command, submit: Submit) -> None:
    job = submit("sleeper")
    (entry,) = registry.entries()
    os.kill(entry.pid, signal.SIGSTOP)
    try:
        listed = ask("list")
        assert [job, "sleeper", "UNREACHABLE"] in [line.split()[:3] for line in listed.stdout.splitlines()]
    finally:
        os.kill(entry.pid, signal.SIGCONT)
    assert "RUNNING" in ask("list").stdout


def test_logs_of_a_job_follow_it_to_its_end(ask: Command, submit: Submit) -> None:
    job = submit("short", records="1500")
    followed = ask("logs", "-f", job)
    assert followed.returncode == 0
    assert followed.stdout.splitlines().count("150") == 10  # the last total of each of ten keys
    assert registry.entries() == []
    last = ask("logs", "short", "-n", "1").stdout
    assert last
    assert followed.stdout.endswith(last)


def test_the_status_of_a_job_whose_input_has_ended(ask: Command, submit: Submit) -> None:
    job = submit("ended", records="20")
    assert ask("logs", "-f", job).returncode == 0

    status = ask("status", job)

    assert (status.returncode, status.stderr) == (0, "")
    assert "FINISHED" in status.stdout
    assert re.search(r"watermark +end of input\n", status.stdout)


def test_plan_and_settings_of_a_running_job(ask: Command, submit: Submit, write, tmp_path: Path) -> None:
    write("my jobs/beadline.yaml", "execution:\n  checkpointing:\n    num-retained: 3\n")
    job = submit("planned")

    plan = ask("plan", job)
    assert plan.returncode == 0, plan.stderr
    assert plan.stdout.startswith("planned: 4 operators, 2 levels\n")
    settings = json.loads(ask("config", "--json", job).stdout)["options"]
    by_key = {option["key"]: (option["value"], option["origin"]) for option in settings}
    assert by_key["execution.checkpointing.num-retained"] == ("3", str(tmp_path / "my jobs" / "beadline.yaml"))
    assert by_key["execution.checkpointing.interval"] == ("200 ms", "program")
    assert by_key["execution.checkpointing.dir"] == (str(tmp_path / "check points"), "command line")
    assert by_key["execution.checkpointing.timeout"] == ("10 min", "default")


class TestWhatIsNotSubmitted:
    def test_a_program_that_fails_before_its_job_runs(self, beadline: Command, write) -> None:
        write("job.py", "raise ValueError('no such topic')")
        done = beadline("run", "-d", "job.py")
        assert (done.returncode, done.stdout) == (1, "")
        assert "ValueError: no such topic" in done.stderr
        assert "job.py has ended with exit code 1, and no job runs. Its log: " in done.stderr

    def test_a_job_that_can_not_start(self, beadline: Command, write) -> None:
        write("job.py", JOB)
        done = beadline("run", "-d", "-s", "/nowhere/savepoint-1", "job.py", "lost", "10")
        assert (done.returncode, done.stdout) == (1, "")
        assert "/nowhere/savepoint-1" in done.stderr

    def test_a_program_without_a_job(self, beadline: Command, write) -> None:
        write("job.py", "print('nothing to do')")
        done = beadline("run", "-d", "job.py")
        assert (done.returncode, done.stdout) == (0, "")
        assert "nothing to do" in done.stderr
        assert "job.py has ended and started no job." in done.stderr

    def test_a_program_that_is_not_there(self, beadline: Command) -> None:
        done = beadline("run", "-d", "nowhere.py")
        assert done.returncode == 2
        assert done.stderr == "error: can't run nowhere.py: there is no such file.\n"
