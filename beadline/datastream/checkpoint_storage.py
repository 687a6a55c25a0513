"""Where checkpoints are kept."""

from __future__ import annotations

from typing import Any, NoReturn

from beadline.checkpoint.settings import Key
from beadline.common.configuration import Configuration
from beadline.datastream.environment import checkpoint_options as options
from beadline.errors import ConfigurationError, UnsupportedFeatureError

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]

_DEFAULT_INLINE_THRESHOLD = 20 * 1024
_DEFAULT_WRITE_BUFFER_SIZE = 4096


class CheckpointStorage:
    """Base of the places that checkpoints can be kept in. It holds settings only; nothing is opened or written."""

    _savepoint_path: str | None = None

    def apply_to(self, configuration: Configuration) -> None:
        """Writes these settings into ``configuration``, under Flink's keys."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is configured.")

    @staticmethod
    def from_configuration(configuration: Configuration) -> CheckpointStorage | None:
        """The storage that ``configuration`` asks for, ``None`` if it names none."""
        kind = configuration.get_string(Key.STORAGE, None)
        directory = configuration.get_string(Key.DIRECTORY, None)
        if kind is None and directory is None:
            return None
        kind = "filesystem" if kind is None else kind.strip().lower()
        storage: CheckpointStorage
        if kind == "jobmanager":
            default = JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE
            limit = options.read_bytes(configuration, Key.MAX_STATE_SIZE, default)
            storage = JobManagerCheckpointStorage(directory, limit)
        elif kind == "filesystem":
            if directory is None:
                raise ConfigurationError(
                    f"{Key.STORAGE} is 'filesystem', but {Key.DIRECTORY} doesn't say where the files go."
                )
            most = FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD
            inline = options.read_bytes(configuration, Key.INLINE_THRESHOLD, _DEFAULT_INLINE_THRESHOLD, most)
            buffer = options.read_int(configuration, Key.WRITE_BUFFER_SIZE, _DEFAULT_WRITE_BUFFER_SIZE, minimum=0)
            storage = FileSystemCheckpointStorage(directory, inline, buffer)
        else:
            raise ConfigurationError(
                f"{Key.STORAGE}: {kind!r} is not known. Use 'filesystem' with {Key.DIRECTORY}, or 'jobmanager'."
            )
        storage._savepoint_path = configuration.get_string(Key.SAVEPOINT_DIRECTORY, None)
        return storage

    def get_savepoint_path(self) -> str | None:
        """Where savepoints go by default, if the configuration says so."""
        return self._savepoint_path


class JobManagerCheckpointStorage(CheckpointStorage):
    """Keeps checkpoints in the memory of the driver: for small state, and lost with the driver.

    :param checkpoint_path: where the metadata is written, if anywhere
    :param max_state_size: bytes that one piece of state may have, 5 MiB by default
    """

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._checkpoint_path = None if checkpoint_path is None else _checked_path(checkpoint_path)
        if max_state_size is None:
            max_state_size = self.DEFAULT_MAX_STATE_SIZE
        self._max_state_size = options.at_least(1, max_state_size, "max_state_size")

    def get_checkpoint_path(self) -> str | None:
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        return self._max_state_size

    def apply_to(self, configuration: Configuration) -> None:
        options.write(configuration, Key.STORAGE, "jobmanager")
        options.write(configuration, Key.MAX_STATE_SIZE, f"{self._max_state_size} b")
        options.write(configuration, Key.DIRECTORY, self._checkpoint_path)

    def __repr__(self) -> str:
        return f"JobManagerCheckpointStorage({self._checkpoint_path!r}, max_state_size={self._max_state_size})"


class FileSystemCheckpointStorage(CheckpointStorage):
    """Keeps checkpoints as files in a directory that all workers reach, each in ``<path>/<job>/chk-<n>``.

    :param checkpoint_path: a local path or a URI such as ``s3://bucket/checkpoints``
    :param file_state_size_threshold: bytes up to which state goes into the metadata rather than a file of its own;
        ``None`` or -1 for what the configuration says, else 20 KiB; at most 1 MiB
    :param write_buffer_size: bytes that are buffered when writing; -1 for what the configuration says, else 4 KiB
    """

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if checkpoint_path is None:
            raise ConfigurationError(
                "FileSystemCheckpointStorage needs a path, for example FileSystemCheckpointStorage('file:///checkpoints')."
            )
        self._checkpoint_path = _checked_path(checkpoint_path)
        threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        self._threshold = options.at_least(-1, threshold, "file_state_size_threshold")
        if threshold > self.MAX_FILE_STATE_THRESHOLD:
            raise ConfigurationError(
                f"file_state_size_threshold must be at most {self.MAX_FILE_STATE_THRESHOLD} bytes, not {threshold}: "
                f"the metadata of all retained checkpoints is held by the driver."
            )
        self._write_buffer_size = options.at_least(-1, write_buffer_size, "write_buffer_size")

    def get_checkpoint_path(self) -> str:
        return self._checkpoint_path

    def get_min_file_size_threshold(self) -> int:
        return _DEFAULT_INLINE_THRESHOLD if self._threshold < 0 else self._threshold

    def get_write_buffer_size(self) -> int:
        return _DEFAULT_WRITE_BUFFER_SIZE if self._write_buffer_size < 0 else self._write_buffer_size

    def apply_to(self, configuration: Configuration) -> None:
        options.write(configuration, Key.STORAGE, "filesystem")
        options.write(configuration, Key.DIRECTORY, self._checkpoint_path)
        if self._threshold >= 0:
            options.write(configuration, Key.INLINE_THRESHOLD, f"{self._threshold} b")
        if self._write_buffer_size >= 0:
            options.write(configuration, Key.WRITE_BUFFER_SIZE, self._write_buffer_size)

    def __repr__(self) -> str:
        return f"FileSystemCheckpointStorage({self._checkpoint_path!r})"


class CustomCheckpointStorage(CheckpointStorage):
    """PyFlink's wrapper of a Java storage. There is none here to wrap: making one raises."""

    def __init__(self, j_custom_checkpoint_storage: Any) -> NoReturn:
        raise UnsupportedFeatureError(
            f"CustomCheckpointStorage({j_custom_checkpoint_storage!r}) wraps a Java object and can't run here. "
            f"Use FileSystemCheckpointStorage or JobManagerCheckpointStorage."
        )


def _checked_path(path: Any) -> str:
    if not isinstance(path, str) or not path.strip():
        raise ConfigurationError(f"A checkpoint path must be a str that is not empty, not {path!r}.")
    return path.rstrip("/") or "/"
