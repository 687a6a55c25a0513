"""Options in files: which are read, which wins, and what is wrong with some."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from beadline.common.outer_options import FOLDER_VARIABLE, option_files, read_config_file
from beadline.datastream import StreamExecutionEnvironment
from beadline.errors import ConfigurationError

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file below a folder with places for an installation (``conf``), a script (``jobs``), and people."""
    for folder in ("conf", "jobs", "here"):
        (tmp_path / folder).mkdir()
    main = ModuleType("__main__")
    main.__file__ = str(tmp_path / "jobs" / "job.py")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "conf"))
    monkeypatch.chdir(tmp_path / "here")

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_the_nearest_file_wins(write: Write) -> None:
    files = [
        write("conf/config.yaml", "parallelism.default: 1\npipeline.name: a\nrest.port: 1\nbeadline.engine: spark\n"),
        write("conf/beadline.yaml", "parallelism.default: 2\npipeline.name: b\nrest.port: 2\n"),
        write("jobs/beadline.yaml", "parallelism.default: 3\n"),
    ]
    write("here/beadline.yaml", "parallelism.default: 4\n")

    assert [file.path for file in option_files()] == [str(file) for file in files]
    assert read_config_file() == {
        "parallelism.default": "3",
        "pipeline.name": "b",
        "rest.port": "2",
        "beadline.engine": "spark",
    }
    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 3


def test_the_current_directory_counts_if_the_script_has_no_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    here = write("here/beadline.yaml", "parallelism.default: 4\n")
    assert [file.path for file in option_files()] == [str(here)]


def test_one_file_is_read_once(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("conf/beadline.yaml", "parallelism.default: 4\n")
    monkeypatch.chdir(tmp_path / "conf")
    assert len(option_files()) == 1


def test_files_of_older_versions_of_flink(write: Write) -> None:
    write(
        "conf/flink-conf.yaml",
        "# as of Flink 1.9\n"
        "state.backend: filesystem\n"
        "state.checkpoints.dir: hdfs://namenode:9000/flink/checkpoints\n"
        "state.checkpoints.num-retained: 20\n",
    )
    env = StreamExecutionEnvironment.get_execution_environment()
    checkpoints = env._configuration
    assert checkpoints.get_string("execution.checkpointing.dir", "") == "hdfs://namenode:9000/flink/checkpoints"
    assert checkpoints.get_integer("execution.checkpointing.num-retained", 1) == 20
    write("conf/config.yaml", "parallelism.default: 2\n")
    assert read_config_file() == {"parallelism.default": "2"}


def test_a_later_file_wins_whichever_name_it_uses(write: Write) -> None:
    write("conf/config.yaml", "execution.checkpointing.dir: /a\n")
    write("conf/beadline.yaml", "state.checkpoints.dir: /b\n")
    assert read_config_file() == {"state.checkpoints.dir": "/b"}
    write("jobs/beadline.yaml", "execution:\n  checkpointing:\n    dir: /c\n")
    assert read_config_file() == {"execution.checkpointing.dir": "/c"}
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env._configuration.get_string("state.checkpoints.dir", "") == "/c"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            "execution.checkpointing.dir: /a\nstate.checkpoints.dir: /b\n",
            "sets execution.checkpointing.dir and state.checkpoints.dir, which are one option: to '/a' and to '/b'.",
        ),
        (
            "parallelism.default: 1\nparallelism:\n  default: 2\n",
            "sets parallelism.default twice: to '1' and to '2'. Keep one.",
        ),
        ("a: [", "is not valid YAML"),
        ("- a", "must hold options as key: value, not a list"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_path(write: Write, content: str, complaint: str) -> None:
    file = write("conf/beadline.yaml", content)
    with pytest.raises(ConfigurationError) as caught:
        read_config_file()
    assert str(caught.value).startswith(str(file))
    assert complaint in str(caught.value)


def test_an_option_that_does_nothing_is_told_with_its_file(write: Write) -> None:
    from beadline.datastream.environment.options import without_effect

    file = write("jobs/beadline.yaml", "execution:\n  checkpointing:\n    intervall: 5 s\n")
    write("conf/config.yaml", "{}")
    env = StreamExecutionEnvironment.get_execution_environment()
    assert without_effect(env._configuration) == [
        (
            "no effect in this version of Beadline: execution.checkpointing.intervall (did you mean "
            f"execution.checkpointing.interval?; in {file})"
        )
    ]


def test_a_folder_without_a_file_is_an_error(write: Write) -> None:
    with pytest.raises(ConfigurationError, match="neither"):
        option_files()
