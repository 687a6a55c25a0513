"""The commands and settings that Flink's tutorials show, as written there, with ``beadline`` for ``bin/flink``.

They are of the time of Flink 1.9: a ``flink-conf.yaml`` with the places of checkpoints and savepoints, a program that
keeps its checkpoints when it is cancelled, ``savepoint jobId [targetDirectory]``,
``cancel -s [targetDirectory] jobId``, and ``run -s path [runArgs]`` with a savepoint or any checkpoint that was kept.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from beadline.master.client import registry
from tests.cli.conftest import Command
from tests.cli.test_client import Server, server  # noqa: F401
from tests.cli.test_running_jobs import wait_until

PROGRAM = """
    import sys
    from pyflink.common import Types
    from pyflink.datastream import CheckpointingMode, ExternalizedCheckpointRetention, StreamExecutionEnvironment
    from pyflink.datastream.functions import KeyedProcessFunction
    from pyflink.datastream.state import ValueStateDescriptor


    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, value, ctx):
            self.total.update((self.total.value() or 0) + 1)
            yield self.total.value()


    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(100)
    config = env.get_checkpoint_config()
    config.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE)
    config.set_min_pause_between_checkpoints(50)
    config.set_checkpoint_timeout(60000)
    config.set_max_concurrent_checkpoints(1)
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    numbers = env.from_sequence(1, 100000000).uid("numbers")
    numbers.key_by(lambda value: value % 10, Types.LONG()).process(Count()).uid("count").print().uid("out")
    env.execute(sys.argv[1])
"""
CONFIGURATION = """
    state.backend: filesystem
    state.checkpoints.dir: file://{place}/checkpoints
    state.checkpoints.num-retained: 20
    state.savepoints.dir: file://{place}/savepoints
    restart-strategy: fixed-delay
    restart-strategy.fixed-delay.attempts: 3
    restart-strategy.fixed-delay.delay: 10 s
    beadline.source.max-records-per-second: 500
    beadline.step.target: 100 ms
"""


@pytest.fixture(autouse=True)
def flink_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write) -> Iterator[Path]:
    """A folder of settings as Flink has one, and a registry of its own."""
    write("conf/flink-conf.yaml", CONFIGURATION.format(place=tmp_path / "flink"))
    write("job.py", PROGRAM)
    monkeypatch.setenv("BEADLINE_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("BEADLINE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("BEADLINE_ENGINE", "local")
    yield tmp_path / "flink"
    for entry in registry.entries():
        os.kill(entry.pid, signal.SIGKILL)


def submitted(beadline: Command, *args: str) -> str:
    """``run -d``, whose last word is the id of the job."""
    done = beadline("run", "-d", "--pyflink", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def records_of(ask: Command, job: str) -> int:
    return int(json.loads(ask("status", job, "--json").stdout)["beadline"]["records"])


@pytest.mark.slow
def test_savepoint_cancel_and_run_from_what_they_left(beadline: Command, ask: Command, flink_home: Path) -> None:
    job = submitted(beadline, "job.py", "first")
    assert [job, "first", "RUNNING"] in [line.split()[:3] for line in ask("list").stdout.splitlines()]

    # savepoint jobId [targetDirectory]
    for words, place in (((job,), flink_home / "savepoints"), ((job, str(flink_home / "mine")), flink_home / "mine")):
        taken = ask("savepoint", *words)
        assert taken.returncode == 0, taken.stderr
        path = re.search(r"^Savepoint completed\. Path: (.+)$", taken.stdout, re.MULTILINE)
        assert path is not None, taken.stdout
        assert Path(path[1]).parent == place
        assert (Path(path[1]) / "_metadata").is_file()

    # hdfs dfs -ls …/checkpoints: the newest of the checkpoints are there, up to num-retained
    folder = flink_home / "checkpoints" / job
    wait_until(lambda: len(list(folder.glob("chk-*/_metadata"))) > 3)

    # cancel -s [targetDirectory] jobId
    cancelled = ask("cancel", "-s", job)
    assert cancelled.returncode == 0, cancelled.stderr
    path = re.search(r"Savepoint stored in (\S+)\.$", cancelled.stdout, re.MULTILINE)
    assert path is not None, cancelled.stdout
    assert path[1].startswith(f"{flink_home}/savepoints/savepoint-{job[:6]}-")
    end = records_of(ask, job)

    # run -s savepointPath [runArgs]
    second = submitted(beadline, "-s", path[1], "-p", "2", "job.py", "second")
    wait_until(lambda: records_of(ask, second) > end)
    cancelled = ask("cancel", "-s", str(flink_home / "mine"), second)
    assert f"Savepoint stored in {flink_home}/mine/savepoint-{second[:6]}-" in cancelled.stdout, cancelled.stderr

    # Back to an older checkpoint of the first job.
    older = min(folder.glob("chk-*"), key=lambda each: int(each.name.removeprefix("chk-")))
    third = submitted(beadline, "-s", f"file://{older}/_metadata", "job.py", "third")
    wait_until(lambda: records_of(ask, third) > 0)
    assert ask("cancel", third).returncode == 0


def test_the_application_of_yarn_is_checked(ask: Command, server: Server) -> None:  # noqa: F811
    """``savepoint jobId [targetDirectory] [-yid yarnAppId]``"""
    there = f"127.0.0.1:{server.server_port}"
    server.answers["GET /jobs/overview"] = [(200, b'{"jobs": [{"jid": "ab12", "name": "job", "state": "RUNNING"}]}')]
    server.answers["GET /jobs/ab12/beadline"] = [(200, b'{"application": "application_1577_0001"}')]
    server.answers["POST /jobs/ab12/savepoints"] = [(202, b'{"request-id": "r1"}')]
    done = b'{"status": {"id": "COMPLETED"}, "operation": {"location": "/data/savepoint-1"}}'
    server.answers["GET /jobs/ab12/savepoints/r1"] = [(200, done)]

    for words in (
        ["savepoint", "ab12", "/data", "-yid", "application_1577_0001"],
        ["savepoint", "ab12", "-yid", "application_1577_0001"],
        ["cancel", "-s", "/data", "ab12", "-yid", "application_1577_0001"],
        ["cancel", "-s", "ab12", "-yid", "application_1577_0001"],
    ):
        asked = ask(*words, "-m", there)
        assert asked.returncode == 0, asked.stderr
        assert "/data/savepoint-1" in asked.stdout
    requests = [json.loads(body) for path, _, body in server.asked if path.startswith("POST")]
    assert [each.get("target-directory") for each in requests] == ["/data", None, "/data", None]
    assert [each["cancel-job"] for each in requests] == [False, False, True, True]

    refused = ask("cancel", "-s", "ab12", "-yid", "application_1577_0002", "-m", there)
    assert refused.returncode == 3
    assert "job ab12 runs in application_1577_0001, and not in application_1577_0002" in refused.stderr
    assert len([path for path, _, _ in server.asked if path.startswith("POST")]) == 4
