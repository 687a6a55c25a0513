"""Options for all jobs of an installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from beadline.common import Configuration
from beadline.common.outer_options import FOLDER_VARIABLE, read_config_file
from beadline.datastream import StreamExecutionEnvironment
from beadline.errors import ConfigurationError


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path / "config.yaml"


def test_nested_and_dotted_keys_mean_the_same(config: Path) -> None:
    config.write_text(
        "execution:\n  checkpointing:\n    interval: 5 s\n    unaligned.enabled: true\nparallelism.default: 3\n"
    )
    assert read_config_file() == {
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.unaligned.enabled": "true",
        "parallelism.default": "3",
    }


def test_a_program_wins_over_the_file(config: Path) -> None:
    config.write_text("parallelism:\n  default: 3\nrestart-strategy:\n  type: none\n")
    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 3
    own = Configuration().set_string("parallelism.default", "2")
    assert StreamExecutionEnvironment.get_execution_environment(own).get_parallelism() == 2


def test_an_empty_file_and_no_variable_say_nothing(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("")
    assert read_config_file() == {}
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert read_config_file() == {}


@pytest.mark.parametrize(("content", "complaint"), [("a: [", "not valid YAML"), ("- a\n- b\n", "key: value")])
def test_a_file_that_says_nothing_sensible_is_refused(config: Path, content: str, complaint: str) -> None:
    config.write_text(content)
    with pytest.raises(ConfigurationError, match=complaint):
        read_config_file()


def test_a_file_that_is_missing_is_an_error(config: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be read"):
        read_config_file()
