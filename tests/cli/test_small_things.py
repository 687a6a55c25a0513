"""What a person types first, types by mistake, or reads last."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import beadline as package
from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.cli.client import _complete
from beadline.cli.progress import JobProgress
from beadline.master.client import registry
from beadline.master.client.registry import Entry
from beadline.master.reporting.news import StatusChanged
from tests.state_processor.everything import running

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Write = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BEADLINE_ENGINE", "local")
    monkeypatch.setenv("BEADLINE_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.parametrize("words", [[], ["run"], ["savepoint"], ["checkpoints", "list"]])
def test_help_in_short(words: list[str], ask: Command) -> None:
    assert ask(*words, "-h").returncode == 0
    assert ask(*words, "-h").stdout == ask(*words, "--help").stdout


def test_the_version_in_short_and_the_package_as_a_command(ask: Command) -> None:
    told = f"beadline {package.__version__}\n"
    assert ask("-V").stdout == told
    done = subprocess.run([sys.executable, "-m", "beadline", "-V"], capture_output=True, text=True, check=True)
    assert done.stdout == told


def test_options_behind_the_program_are_pointed_out(beadline: Command, write: Write) -> None:
    write("job.py", "")

    assert "note: -p comes after the program's name" in beadline("run", "job.py", "-p", "2").stderr
    assert "note: -Da.b=1 comes after the program's name" in beadline("run", "job.py", "-Da.b=1").stderr
    assert beadline("run", "-p", "2", "job.py", "-p", "2").stderr == "", "who gave ours means the program's"
    assert beadline("run", "-q", "job.py", "-s", "x").stderr == ""
    assert beadline("run", "job.py", "--speed", "2").stderr == ""


@pytest.mark.parametrize("command", ["list", "inspect", "verify"])
def test_a_path_where_nothing_is(command: str, ask: Command) -> None:
    result = ask("checkpoints", command, "/nope")

    assert result.returncode == 1
    assert result.stderr == "error: there is nothing at /nope: no such file or folder\n"
    assert result.stdout == ""


def test_checkpoints_of_a_running_job_by_its_name(ask: Command, tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoints")
    with running(1, execution_checkpointing_dir=folder, execution_checkpointing_interval="1h") as master:
        master.trigger(CheckpointKind.CHECKPOINT).result(20)
        registry.add(entry("1" * 32, "mine", str(Path(folder) / master.job_id)))

        listed = json.loads(ask("checkpoints", "list", "mine", "--json").stdout)["checkpoints"]
        inspected = json.loads(ask("checkpoints", "inspect", "mine", "--json").stdout)
        verified = json.loads(ask("checkpoints", "verify", "mine", "--json").stdout)["checked"]

    assert inspected["path"] == listed[0]["path"]
    assert [(each["path"], each["problems"]) for each in verified] == [(each["path"], []) for each in listed]


def test_completion_offers_what_is_not_ambiguous() -> None:
    for number, name in ((1, "beads"), (2, "beads"), (3, "orders")):
        registry.add(entry(str(number) * 32, name))

    assert sorted(_complete("b")) == [("1" * 32, "beads"), ("2" * 32, "beads")]
    assert _complete("o") == [("orders", "3" * 32)]


def test_the_history_on_a_port_that_is_taken(ask: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = ask("history", "-p", str(port))

    assert result.returncode == 1
    assert f"nothing can be served at port {port}: another program listens there. Choose another" in result.stderr


PROGRAM = """
    from beadline.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    env.execute({name})
"""


def name_in_config(beadline: Command, *options: str) -> tuple[str, str]:
    told = json.loads(beadline("config", "--json", *options, "job.py").stdout)["options"]
    [found] = [(each["value"], each["origin"]) for each in told if each["key"] == "pipeline.name"]
    return found


def test_the_name_that_the_program_gives_its_job_is_in_its_configuration(beadline: Command, write: Write) -> None:
    write("job.py", PROGRAM.format(name="'beads'"))
    assert name_in_config(beadline) == ("beads", "program")

    write("job.py", PROGRAM.format(name=""))
    assert name_in_config(beadline, "-D", "pipeline.name=pearls") == ("pearls", "command line")


def test_a_job_that_has_ended_has_no_lag() -> None:
    progress = JobProgress("beads", "1" * 32, lag=7)
    assert "lag 7" in progress.line()

    progress.add(StatusChanged(1, "FINISHED", "ending"))

    assert "lag" not in progress.line()
    assert "lag" not in progress.words()


def entry(job_id: str, name: str, folder: str | None = None) -> Entry:
    return Entry(
        job_id=job_id,
        name=name,
        port=8081,
        url="http://127.0.0.1:8081",
        token="t" * 32,
        started_at=1,
        script="/home/me/job.py",
        argv=(),
        engine="local",
        checkpoint_dir=folder,
        **registry.here(),
    )
