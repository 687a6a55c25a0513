"""Where the working state lives between checkpoints."""

from __future__ import annotations

import posixpath
from enum import Enum
from typing import Any, NoReturn

from beadline.checkpoint.settings import Key
from beadline.common.configuration import Configuration
from beadline.common.without_java import WithoutJava
from beadline.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from beadline.datastream.environment import checkpoint_options as options
from beadline.datastream.environment.checkpoint_options import member_of
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError
from beadline.state import backend_settings
from beadline.state.segments.files import local_path

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "FsStateBackend",
    "HashMapStateBackend",
    "MemoryStateBackend",
    "PredefinedOptions",
    "RocksDBStateBackend",
    "StateBackend",
]

_TRANSFER_THREADS = "state.backend.rocksdb.checkpoint.transfer.thread.num"
_DEFAULT_TRANSFER_THREADS = 4


class PredefinedOptions(Enum):
    """Sets of RocksDB settings for a kind of hardware."""

    DEFAULT = 0
    """RocksDB's own, without syncing to disk: a checkpoint is what survives, not the working copy."""

    SPINNING_DISK_OPTIMIZED = 1
    """For hard disks: levelled compaction with dynamic levels, four background jobs."""

    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    """For hard disks and much memory: larger blocks, write buffers and block cache, bloom filters."""

    FLASH_SSD_OPTIMIZED = 3
    """For SSDs: four background jobs, no limit of open files."""


class StateBackend(WithoutJava):
    """Base of the places that working state can live in. It holds settings only; nothing is opened."""

    def apply_to(self, configuration: Configuration) -> None:
        """Writes these settings into ``configuration``, under Flink's keys."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is configured.")


class HashMapStateBackend(StateBackend):
    """Keeps working state as objects in the memory of the Python workers: fast, and limited by that memory."""

    def apply_to(self, configuration: Configuration) -> None:
        options.write(configuration, backend_settings.TYPE, "hashmap")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps working state in RocksDB on the workers' local disks: for state larger than memory.

    :param enable_incremental_checkpointing: whether a checkpoint holds only what changed since the last;
        ``None`` for what the configuration says
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise TypeMismatchError(
                f"enable_incremental_checkpointing must be True, False or None, "
                f"not {enable_incremental_checkpointing!r}."
            )
        self._incremental = enable_incremental_checkpointing
        self._storage_paths: list[str] = []
        self._predefined_options: PredefinedOptions | None = None
        self._transfer_threads: int | None = None

    def set_db_storage_paths(self, *paths: str) -> None:
        """The local directories for RocksDB's files, instead of Spark's; none goes back to Spark's.

        They need not survive the machine: checkpoints hold what must survive.
        """
        found = []
        for path in paths:
            if not isinstance(path, str) or not path.strip():
                raise ConfigurationError(f"A RocksDB directory must be a str that is not empty, not {path!r}.")
            local = local_path(path)
            if local is None:
                raise ConfigurationError(f"RocksDB needs local directories; {path!r} is not on a local disk.")
            if not local.startswith("/"):
                raise ConfigurationError(f"RocksDB needs absolute paths, since workers run elsewhere; got {path!r}.")
            found.append(posixpath.normpath(local))
        self._storage_paths = found

    def get_db_storage_paths(self) -> list[str]:
        return list(self._storage_paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        self._predefined_options = member_of(PredefinedOptions, options, "predefined options")

    def get_predefined_options(self) -> PredefinedOptions:
        return self._predefined_options or PredefinedOptions.DEFAULT

    def set_options(self, options_factory_class_name: str) -> NoReturn:
        raise UnsupportedFeatureError(
            f"set_options({options_factory_class_name!r}) names a Java class, and RocksDB runs without Java here. "
            f"Use set_predefined_options, or the configuration keys state.backend.rocksdb.*."
        )

    def get_options(self) -> str | None:
        """Always ``None``: there is no options factory."""
        return None

    def get_number_of_transfer_threads(self) -> int:
        return self._transfer_threads or _DEFAULT_TRANSFER_THREADS

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """How many threads carry files to and from the checkpoint storage, at least 1."""
        self._transfer_threads = options.at_least(1, number_of_transfering_threads, "number_of_transfering_threads")

    def apply_to(self, configuration: Configuration) -> None:
        options.write(configuration, backend_settings.TYPE, "rocksdb")
        options.write(configuration, Key.INCREMENTAL, self._incremental)
        options.write(configuration, backend_settings.DIRECTORIES, ",".join(self._storage_paths) or None)
        options.write(configuration, _TRANSFER_THREADS, self._transfer_threads)
        if self._predefined_options is not None:
            options.write(configuration, backend_settings.PREDEFINED, self._predefined_options.name)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(incremental={self._incremental}, "
            f"predefined_options={self.get_predefined_options().name})"
        )


class _HeapWithStorage(HashMapStateBackend):
    """The heap, with the place where checkpoints and savepoints go."""

    _storage: CheckpointStorage
    _savepoint_path: str | None

    def get_checkpoint_storage(self) -> CheckpointStorage:
        return self._storage

    def is_using_asynchronous_snapshots(self) -> bool:
        """Always True: snapshots are written alongside the processing."""
        return True

    def apply_to(self, configuration: Configuration) -> None:
        super().apply_to(configuration)
        self._storage.apply_to(configuration)
        options.write(configuration, Key.SAVEPOINT_DIRECTORY, self._savepoint_path)


class MemoryStateBackend(_HeapWithStorage):
    """Flink 1.x's name for the heap with checkpoints in the driver's memory."""

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool = True,
    ) -> None:
        _check_asynchronous("MemoryStateBackend", using_asynchronous_snapshots)
        self._storage: JobManagerCheckpointStorage = JobManagerCheckpointStorage(checkpoint_path, max_state_size)
        self._savepoint_path = savepoint_path

    def get_max_state_size(self) -> int:
        return self._storage.get_max_state_size()


class FsStateBackend(_HeapWithStorage):
    """Flink 1.x's name for the heap with checkpoints in a file system."""

    def __init__(
        self,
        checkpoint_directory_uri: str | None = None,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool = True,
    ) -> None:
        _check_asynchronous("FsStateBackend", using_asynchronous_snapshots)
        self._storage: FileSystemCheckpointStorage = FileSystemCheckpointStorage(
            checkpoint_directory_uri, file_state_size_threshold, -1 if write_buffer_size is None else write_buffer_size
        )
        self._savepoint_path = default_savepoint_directory_uri

    def get_checkpoint_path(self) -> str:
        return self._storage.get_checkpoint_path()

    def get_min_file_size_threshold(self) -> int:
        return self._storage.get_min_file_size_threshold()

    def get_write_buffer_size(self) -> int:
        return self._storage.get_write_buffer_size()


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """Flink 1.x's name for RocksDB with checkpoints in a file system.

    :param checkpoint_data_uri: where checkpoints go
    :param enable_incremental_checkpointing: whether a checkpoint holds only what changed since the last
    :param checkpoint_stream_backend: instead of a URI, a :class:`FsStateBackend` or :class:`MemoryStateBackend`
        that says where checkpoints go
    """

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: FsStateBackend | MemoryStateBackend | None = None,
    ) -> None:
        super().__init__(enable_incremental_checkpointing)
        if checkpoint_stream_backend is None:
            checkpoint_stream_backend = FsStateBackend(checkpoint_data_uri)
        if not isinstance(checkpoint_stream_backend, (FsStateBackend, MemoryStateBackend)):
            raise TypeMismatchError(
                f"checkpoint_stream_backend must be an FsStateBackend or a MemoryStateBackend, "
                f"not {checkpoint_stream_backend!r}."
            )
        self._checkpoint_backend = checkpoint_stream_backend

    def get_checkpoint_backend(self) -> StateBackend:
        return self._checkpoint_backend

    def apply_to(self, configuration: Configuration) -> None:
        # The heap backend writes its own name too, so ours has to come last.
        self._checkpoint_backend.apply_to(configuration)
        super().apply_to(configuration)


class CustomStateBackend(StateBackend):
    """PyFlink's wrapper of a Java backend. There is none here to wrap: making one raises."""

    def __init__(self, j_custom_state_backend: Any) -> NoReturn:
        raise UnsupportedFeatureError(
            f"CustomStateBackend({j_custom_state_backend!r}) wraps a Java object and can't run here. "
            f"Use HashMapStateBackend or EmbeddedRocksDBStateBackend."
        )


def _check_asynchronous(owner: str, asynchronous: bool) -> None:
    if not asynchronous:
        raise UnsupportedFeatureError(
            f"{owner}(using_asynchronous_snapshots=False): snapshots are always written alongside the processing here. "
            f"Leave the argument out; results are the same."
        )
