"""No file that a job leaves and no line that it logs has a password in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

JOB = """
    from pathlib import Path
    from beadline.common import Types
    from beadline.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)

    def connect(number):
        if number < 1000:  # there are checkpoints by then
            return number
        raise ValueError("can't connect: " + Path("settings").read_text())

    env.from_sequence(1, 2000).map(connect).print()
    env.execute("secrets")
"""
SETTINGS = """password=hunter1 postgresql://bob:hun/t@er2@db/x {"api_key": "hunter3"}
-----BEGIN PRIVATE KEY-----
hunter4
-----END PRIVATE KEY-----"""
SECRETS = ["hunter1", "hun/t", "er2@", "hunter3", "hunter4", "hunter5", "hunter6", "hunter7", "hunter8", "hunter9"]


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BEADLINE_ENGINE", "local")
    monkeypatch.setenv("BEADLINE_STATE_DIR", str(tmp_path / "state"))


def leaks(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("how", [(), ("-d",), ("-v",)])
def test_nothing_that_a_failed_job_leaves_has_a_secret_in_it(beadline: Command, write, tmp_path: Path, how) -> None:
    write("job.py", JOB)
    write("settings", SETTINGS)
    options = {
        "execution.checkpointing.dir": str(tmp_path / "cp"),
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "restart-strategy.fixed-delay.delay": "300 ms",
        "beadline.job-id": "x1",
        "beadline.source.max-records-per-second": "500",
        "beadline.step.target": "100 ms",
        "my.access_key": "hunter5",
        "my.url": "https://u:hunter6@h/x",
        "ssl.key.pem": "hunter7",
    }
    given = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    done = beadline("run", *how, *given, "job.py", "--api_key=hunter8", "--password", "hunter9")
    told = done.stdout + done.stderr
    if how == ("-d",):
        assert beadline("logs", "-f", "x1").returncode == 0
    else:
        assert done.returncode == 1
        assert "can't connect" in told
    assert not leaks(told), told

    kept = {path: path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()}
    found = {str(path.relative_to(tmp_path)): leaks(text) for path, text in kept.items() if path.name != "settings"}
    assert not any(found.values()), found
    failures = [path for path, text in kept.items() if "can't connect" in text]
    assert {path.name for path in failures} >= {"history", "history-events"}, "the files that are looked at"


def test_the_command_line_of_a_detached_driver_has_no_secret_in_it(beadline: Command, write, tmp_path: Path) -> None:
    """Every user of the machine can read it. Its own children don't get the secrets either."""
    write(
        "job.py",
        """
        import json, os
        from pathlib import Path
        from beadline.common.outer_options import get_overrides

        found = Path("/proc/self/cmdline").read_text().split("\\0"), dict(os.environ), get_overrides()
        Path("found").write_text(json.dumps(found))
        """,
    )
    done = beadline("run", "-d", "-D", "my.api_key=hunter1", "-D", "my.url=plain", "job.py")
    assert done.returncode == 0, done.stderr
    line, environment, options = json.loads((tmp_path / "found").read_text())
    assert "-Dmy.url=plain" in line
    assert not leaks(str(line) + str(environment))
    assert (options["my.api_key"], options["my.url"]) == ("hunter1", "plain")
