"""The settings of checkpoints, in code and in a configuration, say the same thing."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.common.configuration import Configuration
from beadline.common.time import Duration, Time
from beadline.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    CustomCheckpointStorage,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError

PREFIX = "execution.checkpointing."
Retention = ExternalizedCheckpointRetention

# name of the option: a value in code, the same value as text, what the getter says, what it says by default
OPTIONS: dict[str, tuple[str, Any, str, Any, Any]] = {
    "interval": ("checkpoint_interval", 60_000, "1 min", 60_000, -1),
    "timeout": ("checkpoint_timeout", 5_000, "5 s", 5_000, 600_000),
    "min-pause": ("min_pause_between_checkpoints", 500, "500 ms", 500, 0),
    "max-concurrent-checkpoints": ("max_concurrent_checkpoints", 3, "3", 3, 1),
    "tolerable-failed-checkpoints": ("tolerable_checkpoint_failure_number", 2, "2", 2, 0),
    "externalized-checkpoint-retention": (
        "externalized_checkpoint_retention",
        Retention.RETAIN_ON_CANCELLATION,
        "RETAIN_ON_CANCELLATION",
        Retention.RETAIN_ON_CANCELLATION,
        Retention.NO_EXTERNALIZED_CHECKPOINTS,
    ),
    "aligned-checkpoint-timeout": (
        "aligned_checkpoint_timeout",
        Duration.of_seconds(30),
        "30 s",
        Duration.of_seconds(30),
        Duration.of_millis(0),
    ),
}


@pytest.mark.parametrize("option", OPTIONS)
class TestEachOption:
    def test_has_flinks_default(self, option: str) -> None:
        name, _, _, _, default = OPTIONS[option]
        assert getattr(CheckpointConfig(), f"get_{name}")() == default

    def test_can_be_set_in_code_and_read_in_the_configuration(self, option: str) -> None:
        name, value, _, expected, _ = OPTIONS[option]
        configuration = Configuration()
        config = CheckpointConfig(configuration)
        assert getattr(config, f"set_{name}")(value) is config
        assert getattr(config, f"get_{name}")() == expected
        assert configuration.key_set() == {PREFIX + option}
        copy = Configuration().set_string(PREFIX + option, configuration.to_dict()[PREFIX + option])
        assert getattr(CheckpointConfig(copy), f"get_{name}")() == expected

    def test_can_be_set_in_the_configuration_and_read_in_code(self, option: str) -> None:
        name, _, text, expected, _ = OPTIONS[option]
        configuration = Configuration().set_string(PREFIX + option, text)
        assert getattr(CheckpointConfig(configuration), f"get_{name}")() == expected

    def test_refuses_what_it_cannot_be(self, option: str) -> None:
        name = OPTIONS[option][0]
        configuration = Configuration().set_string(PREFIX + option, "nonsense")
        with pytest.raises(ConfigurationError, match=rf"{option}.*nonsense"):
            getattr(CheckpointConfig(configuration), f"get_{name}")()
        with pytest.raises((ConfigurationError, TypeMismatchError)):
            getattr(CheckpointConfig(), f"set_{name}")("nonsense")


@pytest.mark.parametrize(
    ("setter", "wrong"),
    [
        ("set_checkpoint_interval", 0),
        ("set_checkpoint_interval", -1),
        ("set_checkpoint_interval", 1.5),
        ("set_checkpoint_interval", True),
        ("set_checkpoint_timeout", 0),
        ("set_min_pause_between_checkpoints", -1),
        ("set_max_concurrent_checkpoints", 0),
        ("set_tolerable_checkpoint_failure_number", -1),
        ("set_aligned_checkpoint_timeout", Duration.of_millis(-1)),
        ("set_checkpointing_mode", "EXACTLY_ONCE"),
        ("set_externalized_checkpoint_retention", CheckpointingMode.EXACTLY_ONCE),
        ("enable_unaligned_checkpoints", "yes"),
        ("set_force_unaligned_checkpoints", 1),
        ("set_fail_on_checkpointing_errors", None),
        ("set_checkpoint_storage", 5),
        ("set_checkpoint_storage", ""),
    ],
)
def test_setters_refuse_values_that_cannot_work(setter: str, wrong: Any) -> None:
    config = CheckpointConfig()
    with pytest.raises(ConfigurationError):
        getattr(config, setter)(wrong)
    assert config._configuration.key_set() == set(), "nothing is half set"


def test_an_interval_is_what_turns_checkpoints_on() -> None:
    config = CheckpointConfig()
    assert not config.is_checkpointing_enabled()
    assert repr(config) == "CheckpointConfig(off)"
    config.set_checkpoint_interval(1000)
    assert config.is_checkpointing_enabled()
    assert repr(config) == "CheckpointConfig(every 1000 ms, EXACTLY_ONCE, None)"


def test_failing_on_errors_is_the_older_way_to_tolerate_none() -> None:
    config = CheckpointConfig()
    assert config.is_fail_on_checkpointing_errors()
    config.set_fail_on_checkpointing_errors(False)
    assert config.get_tolerable_checkpoint_failure_number() == 2**31 - 1
    assert not config.is_fail_on_checkpointing_errors()
    config.set_fail_on_checkpointing_errors(True)
    assert config.get_tolerable_checkpoint_failure_number() == 0


def test_the_mode_counts_once_checkpoints_are_on() -> None:
    config = CheckpointConfig()
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE, "nothing better holds without them"
    config.set_checkpoint_interval(1000)
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config._configuration.to_dict()["execution.checkpointing.mode"] == "AT_LEAST_ONCE"
    config._configuration.set_string("execution.checkpointing.mode", "exactly-once")
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE


def test_older_names_of_retention() -> None:
    assert ExternalizedCheckpointCleanup is ExternalizedCheckpointRetention
    config = CheckpointConfig()
    assert not config.is_externalized_checkpoints_enabled()
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_retention() is Retention.DELETE_ON_CANCELLATION
    config.set_externalized_checkpoint_cleanup(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_cleanup() is Retention.RETAIN_ON_CANCELLATION
    assert config.is_externalized_checkpoints_enabled()


def test_unaligned_checkpoints() -> None:
    config = CheckpointConfig().set_checkpoint_interval(1000)
    assert not config.is_unaligned_checkpoints_enabled()
    assert config.enable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert config._configuration.to_dict()["execution.checkpointing.unaligned.enabled"] == "true"
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert not config.is_force_unaligned_checkpoints()
    assert config.set_force_unaligned_checkpoints().is_force_unaligned_checkpoints()
    config.set_alignment_timeout(Duration.of_seconds(3))
    assert config.get_aligned_checkpoint_timeout() == config.get_alignment_timeout() == Duration.of_seconds(3)
    config.set_aligned_checkpoint_timeout(Time.seconds(4))  # type: ignore[arg-type]
    assert config.get_aligned_checkpoint_timeout() == Duration.of_seconds(4)


def test_unaligned_goes_with_exactly_once_only() -> None:
    config = CheckpointConfig().set_checkpoint_interval(1000).enable_unaligned_checkpoints()
    assert config.is_unaligned_checkpoints_enabled()
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert not config.is_unaligned_checkpoints_enabled()


class TestStorage:
    def test_nothing_said_is_none(self) -> None:
        assert CheckpointConfig().get_checkpoint_storage() is None

    @pytest.mark.parametrize("key", ["execution.checkpointing.dir", "state.checkpoints.dir"])
    def test_a_directory_means_files(self, key: str) -> None:
        storage = CheckpointConfig(Configuration().set_string(key, "s3://bucket/cp")).get_checkpoint_storage()
        assert isinstance(storage, FileSystemCheckpointStorage)
        assert storage.get_checkpoint_path() == "s3://bucket/cp"

    def test_files_without_a_directory_are_nowhere(self) -> None:
        config = CheckpointConfig(Configuration().set_string("execution.checkpointing.storage", "filesystem"))
        with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir doesn't say"):
            config.get_checkpoint_storage()

    @pytest.mark.parametrize("how", ["set_checkpoint_storage", "set_checkpoint_storage_dir"])
    def test_a_path_in_code(self, how: str) -> None:
        config = CheckpointConfig()
        assert getattr(config, how)("file:///var/checkpoints/") is config
        assert config._configuration.to_dict() == {
            "execution.checkpointing.storage": "filesystem",
            "execution.checkpointing.dir": "file:///var/checkpoints",
        }

    def test_files_go_through_the_configuration_and_back(self) -> None:
        config = CheckpointConfig().set_checkpoint_storage(FileSystemCheckpointStorage("/cp", 100, 8192))
        config._configuration.set_string("execution.checkpointing.savepoint-dir", "/sp")
        storage = config.get_checkpoint_storage()
        assert isinstance(storage, FileSystemCheckpointStorage)
        assert storage.get_checkpoint_path() == "/cp"
        assert storage.get_min_file_size_threshold() == 100
        assert storage.get_write_buffer_size() == 8192
        assert storage.get_savepoint_path() == "/sp"

    def test_the_drivers_memory_goes_through_the_configuration_and_back(self) -> None:
        config = CheckpointConfig().set_checkpoint_storage(JobManagerCheckpointStorage(None, 4096))
        storage = config.get_checkpoint_storage()
        assert isinstance(storage, JobManagerCheckpointStorage)
        assert storage.get_max_state_size() == 4096
        assert storage.get_checkpoint_path() is None
        assert storage.get_savepoint_path() is None

    def test_the_later_storage_wins(self) -> None:
        config = CheckpointConfig().set_checkpoint_storage("/cp")
        config.set_checkpoint_storage(JobManagerCheckpointStorage())
        assert isinstance(config.get_checkpoint_storage(), JobManagerCheckpointStorage)

    def test_defaults(self) -> None:
        files = FileSystemCheckpointStorage("/cp")
        assert (files.get_min_file_size_threshold(), files.get_write_buffer_size()) == (20480, 4096)
        assert files.get_savepoint_path() is None
        assert JobManagerCheckpointStorage().get_max_state_size() == 5 * 1024 * 1024

    @pytest.mark.parametrize("arguments", [(), ("",), (5,), ("/cp", -2), ("/cp", 1024 * 1024 + 1), ("/cp", 1, -2)])
    def test_files_refuse_what_cannot_work(self, arguments: Any) -> None:
        with pytest.raises(ConfigurationError):
            FileSystemCheckpointStorage(*arguments)

    @pytest.mark.parametrize("arguments", [("",), (None, 0), (None, -1), (None, "5 mb")])
    def test_memory_refuses_what_cannot_work(self, arguments: Any) -> None:
        with pytest.raises(ConfigurationError):
            JobManagerCheckpointStorage(*arguments)

    def test_a_java_storage_is_refused(self) -> None:
        with pytest.raises(UnsupportedFeatureError, match="FileSystemCheckpointStorage"):
            CustomCheckpointStorage(object())


def test_the_checkpoint_whose_in_flight_data_is_ignored() -> None:
    config = CheckpointConfig(Configuration())
    assert config.get_checkpoint_id_of_ignored_in_flight_data() == -1

    config.set_checkpoint_id_of_ignored_in_flight_data(7)

    assert config.get_checkpoint_id_of_ignored_in_flight_data() == 7
    with pytest.raises(ConfigurationError, match="id of the checkpoint"):
        config.set_checkpoint_id_of_ignored_in_flight_data(-2)
