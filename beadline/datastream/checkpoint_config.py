from __future__ import annotations

from beadline.api.arguments import as_milliseconds
from beadline.checkpoint.settings import Key, read_member
from beadline.common.configuration import Configuration
from beadline.common.time import Duration
from beadline.common.without_java import WithoutJava
from beadline.datastream.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage
from beadline.datastream.checkpointing_mode import CheckpointingMode
from beadline.datastream.environment import checkpoint_options as options
from beadline.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from beadline.errors import ConfigurationError

__all__ = ["CheckpointConfig", "ExternalizedCheckpointCleanup"]

ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""Flink 1.x's name."""

_UNALIGNED_FORCED = "execution.checkpointing.unaligned.forced"
_DEFAULT_TIMEOUT_MS = 10 * 60 * 1000
_UNLIMITED_FAILURES = 2**31 - 1


class CheckpointConfig(WithoutJava):
    """When and how checkpoints are taken: ``env.get_checkpoint_config()``.

    It is a typed view of a ``Configuration``: what is set here can be read there under ``execution.checkpointing.*``,
    and the other way round. Times are in milliseconds unless they are a ``Duration``. All setters return the object.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    # --- when ---------------------------------------------------------------------------------------------------------

    def is_checkpointing_enabled(self) -> bool:
        return self.get_checkpoint_interval() > 0

    def get_checkpoint_interval(self) -> int:
        """The time from one checkpoint to the next, -1 if there are none."""
        return options.read_milliseconds(self._configuration, Key.INTERVAL, -1)

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Takes a checkpoint every ``checkpoint_interval``, later if one is running or the pause is not over."""
        return self._set_millis(Key.INTERVAL, options.at_least(1, checkpoint_interval, "The checkpoint interval"))

    def get_checkpoint_timeout(self) -> int:
        """How long a checkpoint may take before it is given up; 10 minutes by default."""
        return options.read_milliseconds(self._configuration, Key.TIMEOUT, _DEFAULT_TIMEOUT_MS)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        return self._set_millis(Key.TIMEOUT, options.at_least(1, checkpoint_timeout, "The checkpoint timeout"))

    def get_min_pause_between_checkpoints(self) -> int:
        """The time from the end of a checkpoint to the start of the next; 0 by default."""
        return options.read_milliseconds(self._configuration, Key.MIN_PAUSE, 0)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        pause = options.at_least(0, min_pause_between_checkpoints, "The pause between checkpoints")
        return self._set_millis(Key.MIN_PAUSE, pause)

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be running at the same time; 1 by default."""
        return options.read_int(self._configuration, Key.MAX_CONCURRENT, 1, minimum=1)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        number = options.at_least(1, max_concurrent_checkpoints, "The number of concurrent checkpoints")
        return self._set(Key.MAX_CONCURRENT, number)

    # --- what they guarantee, and when they are deleted ---------------------------------------------------------------

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """What holds after a failure: EXACTLY_ONCE by default, and AT_LEAST_ONCE as long as checkpoints are off."""
        if not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        return read_member(self._configuration, Key.MODE, CheckpointingMode.EXACTLY_ONCE)

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        mode = options.member_of(CheckpointingMode, checkpointing_mode, "checkpointing mode")
        return self._set(Key.MODE, mode.name)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail before the job does; 0 by default."""
        return options.read_int(self._configuration, Key.TOLERABLE_FAILURES, 0, minimum=0)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        number = options.at_least(0, tolerable_checkpoint_failure_number, "The number of tolerable checkpoint failures")
        return self._set(Key.TOLERABLE_FAILURES, number)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first checkpoint that fails makes the job fail (Flink 1.x's way to say it)."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Fails the job with its first failed checkpoint, or with none (Flink 1.x's way to say it)."""
        fail = options.truth(fail_on_checkpointing_errors, "answer to fail_on_checkpointing_errors")
        return self.set_tolerable_checkpoint_failure_number(0 if fail else _UNLIMITED_FAILURES)

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to checkpoints when the job is cancelled or its program fails."""
        default = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return read_member(self._configuration, Key.RETENTION, default)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        mode = options.member_of(ExternalizedCheckpointRetention, retention_mode, "retention of checkpoints")
        return self._set(Key.RETENTION, mode.name)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether checkpoints can outlive the job."""
        none = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not none

    def enable_externalized_checkpoints(self, cleanup_mode: ExternalizedCheckpointRetention) -> CheckpointConfig:
        """Flink 1.x's name of :meth:`set_externalized_checkpoint_retention`."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    # Flink 1.x's names.
    set_externalized_checkpoint_cleanup = enable_externalized_checkpoints
    get_externalized_checkpoint_cleanup = get_externalized_checkpoint_retention

    # --- unaligned checkpoints ----------------------------------------------------------------------------------------

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records: if that was asked for and the mode is EXACTLY_ONCE."""
        asked_for = self._configuration.get_boolean(Key.UNALIGNED, False)
        return asked_for and self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Lets barriers overtake records, so that no checkpoint waits for a slow step; only in mode EXACTLY_ONCE."""
        return self._set(Key.UNALIGNED, options.truth(enabled, "answer to enable_unaligned_checkpoints"))

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        return self.enable_unaligned_checkpoints(False)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """After how long an aligned checkpoint goes on unaligned; 0, the default, starts unaligned."""
        return Duration.of_millis(options.read_milliseconds(self._configuration, Key.ALIGNED_TIMEOUT, 0))

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        timeout = options.at_least(0, as_milliseconds(alignment_timeout, "alignment timeout"), "The alignment timeout")
        return self._set_millis(Key.ALIGNED_TIMEOUT, timeout)

    # The older names.
    get_alignment_timeout = get_aligned_checkpoint_timeout
    set_alignment_timeout = set_aligned_checkpoint_timeout

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Has no effect, and a job that asks for it logs that: no exchange here keeps barriers from overtaking
        records."""
        forced = options.truth(force_unaligned_checkpoints, "answer to set_force_unaligned_checkpoints")
        return self._set(_UNALIGNED_FORCED, forced)

    def is_force_unaligned_checkpoints(self) -> bool:
        return self._configuration.get_boolean(_UNALIGNED_FORCED, False)

    def get_checkpoint_id_of_ignored_in_flight_data(self) -> int:
        """The checkpoint that is restored without the records that were in flight; -1, the default, for none."""
        return self._configuration.get_integer(Key.IGNORED_IN_FLIGHT, -1)

    def set_checkpoint_id_of_ignored_in_flight_data(self, checkpoint_id: int) -> CheckpointConfig:
        """Restores that checkpoint, if it is unaligned, without the records that were in flight; they are lost."""
        return self._set(Key.IGNORED_IN_FLIGHT, options.at_least(-1, checkpoint_id, "The id of the checkpoint"))

    # --- where --------------------------------------------------------------------------------------------------------

    def set_checkpoint_storage(self, storage: str | CheckpointStorage) -> CheckpointConfig:
        """Where checkpoints go: a directory, or a storage with more settings (Flink 1.x's way to say it)."""
        if isinstance(storage, str):
            storage = FileSystemCheckpointStorage(storage)
        if not isinstance(storage, CheckpointStorage):
            raise ConfigurationError(
                f"The checkpoint storage must be a path or a CheckpointStorage, "
                f"not {type(storage).__name__}: {storage!r}."
            )
        storage.apply_to(self._configuration)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Keeps checkpoints as files in that directory (Flink 1.x's way to say it)."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Where checkpoints go; ``None`` if neither the program nor the configuration says so."""
        return CheckpointStorage.from_configuration(self._configuration)

    def _set(self, key: str, value: str | int | bool) -> CheckpointConfig:
        options.write(self._configuration, key, value)
        return self

    def _set_millis(self, key: str, milliseconds: int) -> CheckpointConfig:
        return self._set(key, f"{milliseconds} ms")

    def __repr__(self) -> str:
        if not self.is_checkpointing_enabled():
            return "CheckpointConfig(off)"
        mode = self.get_checkpointing_mode().name
        return f"CheckpointConfig(every {self.get_checkpoint_interval()} ms, {mode}, {self.get_checkpoint_storage()!r})"
