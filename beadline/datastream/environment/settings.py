from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from typing import Self

from beadline.checkpoint.settings import Key
from beadline.common import Configuration, ExecutionConfig
from beadline.common.outer_options import get_overrides, read_config_file
from beadline.common.restart_strategy import RestartStrategyConfiguration
from beadline.common.without_java import WithoutJava
from beadline.datastream.checkpoint_config import CheckpointConfig
from beadline.datastream.checkpointing_mode import CheckpointingMode
from beadline.datastream.environment import options
from beadline.datastream.execution_mode import RuntimeExecutionMode
from beadline.datastream.slot_sharing_group import SlotSharingGroup
from beadline.datastream.state_backend import StateBackend
from beadline.datastream.streams.operator_settings import checked_parallelism
from beadline.datastream.time_characteristic import TimeCharacteristic
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError
from beadline.master import engines
from beadline.state.segments.files import local_path


class EnvironmentSettings(WithoutJava):
    """What a program can set for all of its jobs. Later settings win: files, the configuration that the environment
    is made with, the command line, what is set after that."""

    # The default parallelism of environments made from now on, if they run in one process.
    _default_local_parallelism: int | None = None

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration()
        for key, value in read_config_file().items():
            self._configuration.set_string(key, value)
        if configuration is not None:
            self._configuration.add_all(configuration)
        for key, value in get_overrides().items():
            self._configuration.set_string(key, value)
        self._config = ExecutionConfig(self._configuration)
        self._checkpoint_config = CheckpointConfig(self._configuration)
        self._notes: dict[str, str] = {}
        self._local_parallelism = EnvironmentSettings._default_local_parallelism
        self._time_characteristic = TimeCharacteristic.EventTime

    def get_config(self) -> ExecutionConfig:
        return self._config

    def configure(self, configuration: Configuration) -> None:
        self._configuration.add_all(configuration)

    def set_parallelism(self, parallelism: int) -> Self:
        self._configuration.set_integer(options.PARALLELISM, checked_parallelism(parallelism, "environment"))
        return self

    def get_parallelism(self) -> int:
        """What was set, or else the slots of the active Spark session, or the cores of this machine."""
        value = self._configuration.get_integer(options.PARALLELISM, 0)
        return value if value > 0 else engines.default_parallelism(self._local_parallelism)

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        self._configuration.set_integer(options.MAX_PARALLELISM, checked_parallelism(max_parallelism, "environment"))
        return self

    def get_max_parallelism(self) -> int:
        return self._configuration.get_integer(options.MAX_PARALLELISM, -1)

    def get_default_local_parallelism(self) -> int:
        return EnvironmentSettings._default_local_parallelism or os.cpu_count() or 1

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """For environments made from now on, unless they run on a cluster; this one keeps its parallelism."""
        checked = checked_parallelism(parallelism, "default of local environments")
        EnvironmentSettings._default_local_parallelism = checked

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """BATCH reads bounded input and emits final results of keyed folds only."""
        self._configuration.set_string(options.RUNTIME_MODE, execution_mode.name)
        return self

    def _is_batch(self) -> bool:
        return options.runtime_mode(self._configuration) == "BATCH"

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        self._configuration.set_string(options.BUFFER_TIMEOUT, f"{timeout_millis} ms")
        return self

    def get_buffer_timeout(self) -> int:
        return self._configuration.get_duration_ms(options.BUFFER_TIMEOUT, 100)

    def disable_operator_chaining(self) -> Self:
        self._configuration.set_boolean(options.CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        return self._configuration.get_boolean(options.CHAINING, True)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        return self._configuration.get_boolean(options.CHAINING_DIFFERENT_MAX, True)

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        self._without_effect("register_slot_sharing_group", "Spark schedules the tasks")
        return self

    # -- checkpointing and state

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        return self._checkpoint_config

    def get_checkpoint_interval(self) -> int:
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return self._checkpoint_config.get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """State is a log of changes anyway: the setting is kept for ``is_changelog_state_backend_enabled`` only."""
        self._configuration.set_boolean(options.CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """None if it was not set."""
        return self._configuration.get_boolean(options.CHANGELOG, None)

    def set_default_savepoint_directory(self, directory: str) -> Self:
        self._configuration.set_string(Key.SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        return self._configuration.get_string(Key.SAVEPOINT_DIRECTORY, None)

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """PyFlink 1.x's way to choose the state backend."""
        if not isinstance(state_backend, StateBackend):
            raise TypeMismatchError(f"set_state_backend() takes a StateBackend, got {state_backend!r}")
        state_backend.apply_to(self._configuration)
        return self

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> Self:
        """PyFlink 1.x's way to choose the restart strategy."""
        self._configuration.add_all(options.of_restart_strategy(restart_strategy_configuration))
        return self

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> None:
        """PyFlink 1.x's way to choose the time the program works in; call it before the streams are declared.

        Processing time turns the watermarks of strategies off, as ``set_auto_watermark_interval(0)`` does.
        """
        if not isinstance(characteristic, TimeCharacteristic):
            raise TypeMismatchError(f"set_stream_time_characteristic() takes a TimeCharacteristic: {characteristic!r}")
        if characteristic is TimeCharacteristic.IngestionTime:
            raise UnsupportedFeatureError(
                "TimeCharacteristic.IngestionTime is not supported by Beadline: after a failure records would get "
                "other times than before. Use EventTime with a WatermarkStrategy, or ProcessingTime."
            )
        self._time_characteristic = characteristic
        self._config.set_auto_watermark_interval(200 if characteristic is TimeCharacteristic.EventTime else 0)

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        return self._time_characteristic

    def _make_folder(self, one_machine: bool, call: str, contents: str, prefix: str) -> str:
        """A new folder for records that wait between jobs, where the executors reach it; removed when the program ends
        at the latest.

        :param one_machine: whether the workers are on this machine
        :param call: what needs it, for the errors
        """
        shared = self._configuration.get_string(Key.DIRECTORY, None)
        if shared is None and not one_machine:
            raise ConfigurationError(
                f"{call} on a cluster needs a folder that all executors reach: set execution.checkpointing.dir"
            )
        base = None if shared is None else local_path(shared)
        if shared is not None and base is None:
            raise UnsupportedFeatureError(f"{call} needs a mounted folder for {contents}, not {shared}")
        if base is not None:
            os.makedirs(base, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=prefix, dir=base)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def _without_effect(self, what: str, why: str) -> None:
        self._notes[what] = f"{what} has no effect in Beadline: {why}"
