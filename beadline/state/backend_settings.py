"""Which state backend a job works with, and its limits: plain values that travel with every step."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any

from beadline.common.configuration import Configuration
from beadline.errors import ConfigurationError, EnvironmentSetupError, UnsupportedFeatureError
from beadline.state.segments.files import local_path

TYPE = "state.backend.type"
_ROCKS = "state.backend.rocksdb."
DIRECTORIES = _ROCKS + "localdir"
PREDEFINED = _ROCKS + "predefined-options"
FACTORY = _ROCKS + "options-factory"
MANAGED = _ROCKS + "memory.managed"
FIXED = _ROCKS + "memory.fixed-per-slot"
WRITE_RATIO = _ROCKS + "memory.write-buffer-ratio"
BLOCK_CACHE = _ROCKS + "block.cache-size"
BLOOM = _ROCKS + "use-bloom-filter"
DYNAMIC_LEVELS = _ROCKS + "compaction.level.use-dynamic-size"
STYLE = _ROCKS + "compaction.style"

# Sizes and numbers: by the name of the setting, the key and the least value.
_SIZES = {
    "block_cache": (BLOCK_CACHE, 1),
    "block_size": (_ROCKS + "block.blocksize", 64),
    "write_buffer": (_ROCKS + "writebuffer.size", 64 << 10),
    "level_base": (_ROCKS + "compaction.level.max-size-level-base", 1),
    "target_file": (_ROCKS + "compaction.level.target-file-size-base", 1),
    "own_bytes": ("beadline.rocksdb.own-database.max-size", 0),
}
_NUMBERS = {
    "write_buffers": (_ROCKS + "writebuffer.count", 1),
    "write_buffers_to_merge": (_ROCKS + "writebuffer.number-to-merge", 1),
    "threads": (_ROCKS + "thread.num", 1),
    "open_files": (_ROCKS + "files.open", -1),
    "bloom_bits": (_ROCKS + "bloom-filter.bits-per-key", 1),
}

#: All keys that :meth:`BackendSettings.from_configuration` reads.
KEYS = frozenset(
    {TYPE, DIRECTORIES, PREDEFINED, FACTORY, MANAGED, FIXED, WRITE_RATIO, BLOOM, DYNAMIC_LEVELS, STYLE}
    | {key for key, _ in (*_SIZES.values(), *_NUMBERS.values())}
)

HEAP, ROCKSDB = "hashmap", "rocksdb"
_HEAP_NAMES = frozenset({HEAP, "jobmanager", "filesystem"})
_STYLES = ("level", "universal", "none")
_MB = 1 << 20
_LEAST_MEMORY = 8 * _MB

# What a set of predefined options says, for options that the job does not set itself.
_PREDEFINED: dict[str, dict[str, Any]] = {
    "DEFAULT": {},
    "SPINNING_DISK_OPTIMIZED": {"threads": 4, "dynamic_levels": True},
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM": {
        "threads": 4,
        "dynamic_levels": True,
        "block_cache": 256 * _MB,
        "block_size": 128 << 10,
        "write_buffer": 64 * _MB,
        "write_buffers": 4,
        "write_buffers_to_merge": 3,
        "level_base": 1024 * _MB,
        "target_file": 256 * _MB,
    },
    "FLASH_SSD_OPTIMIZED": {"threads": 4},
}


@dataclass(frozen=True)
class RocksSettings:
    """How RocksDB works in a Python worker. Sizes are in bytes.

    :ivar memory: what all databases of a worker share for blocks, filters and write buffers; None if each has
        ``block_cache`` and its write buffers of its own
    :ivar write_ratio: the part of ``memory`` that write buffers may take
    :ivar open_files: how many files a database may have open; -1 for as many as the process is allowed, within reason
    :ivar directories: local folders for its files; none for Spark's
    :ivar own_bytes: up to this size, each worker has its own database of a subtask's state, which stays open; larger
        state is in one that the workers of a machine share, and open in turn
    :ivar style: how files are compacted: ``level``, ``universal``, or ``none`` at all
    """

    memory: int | None = 256 * _MB
    write_ratio: float = 0.5
    directories: tuple[str, ...] = ()
    block_cache: int = 8 * _MB
    block_size: int = 4 << 10
    write_buffer: int = 64 * _MB
    write_buffers: int = 2
    write_buffers_to_merge: int = 1
    threads: int = 2
    open_files: int = -1
    bloom_bits: int = 10
    own_bytes: int = 64 * _MB
    # A common database is closed after every task, which ends compactions; and the index of a large file crowds the
    # cache.
    level_base: int = 64 * _MB
    target_file: int = 8 * _MB
    dynamic_levels: bool = False
    style: str = "level"

    @staticmethod
    def from_configuration(configuration: Configuration) -> RocksSettings:
        factory = configuration.get_string(FACTORY, None)
        if factory:
            raise UnsupportedFeatureError(
                f"{FACTORY}: {factory!r} names a Java class, and RocksDB runs without Java here. "
                f"Use {PREDEFINED}, or the keys {_ROCKS}*."
            )
        ready = configuration.get_string(PREDEFINED, "DEFAULT").strip().upper()
        if ready not in _PREDEFINED:
            raise ConfigurationError(f"{PREDEFINED}: {ready!r} is not known. Use one of {', '.join(_PREDEFINED)}.")
        values = dict(_PREDEFINED[ready])
        for name, (key, least) in _SIZES.items():
            _take(values, name, key, configuration.get_memory_bytes(key, None), least)
        for name, (key, least) in _NUMBERS.items():
            _take(values, name, key, configuration.get_integer(key, None), least)
        if not configuration.get_boolean(BLOOM, True):
            values["bloom_bits"] = 0
        if configuration.contains_key(DYNAMIC_LEVELS):
            values["dynamic_levels"] = configuration.get_boolean(DYNAMIC_LEVELS, False)
        values["style"] = configuration.get_string(STYLE, "level").strip().lower()
        if values["style"] not in _STYLES:
            raise ConfigurationError(f"{STYLE}: {values['style']!r} can't work. Use one of {', '.join(_STYLES)}.")
        values["write_ratio"] = configuration.get_float(WRITE_RATIO, RocksSettings.write_ratio)
        if not 0 < values["write_ratio"] < 1:
            raise ConfigurationError(f"{WRITE_RATIO} must lie between 0 and 1, got {values['write_ratio']}")
        if configuration.contains_key(FIXED):
            _take(values, "memory", FIXED, configuration.get_memory_bytes(FIXED, None), _LEAST_MEMORY)
        elif not configuration.get_boolean(MANAGED, True):
            values["memory"] = None
        values["directories"] = _directories(configuration)
        return RocksSettings(**values)


@dataclass(frozen=True)
class BackendSettings:
    """The state backend of a job: ``hashmap`` or ``rocksdb``, and what RocksDB is told."""

    kind: str = HEAP
    rocks: RocksSettings = field(default_factory=RocksSettings)

    @staticmethod
    def from_configuration(configuration: Configuration) -> BackendSettings:
        kind = (configuration.get_string(TYPE, None) or HEAP).strip().lower()
        if kind in _HEAP_NAMES:
            return BackendSettings()
        if kind != ROCKSDB:
            raise ConfigurationError(f"{TYPE}: {kind!r} is not known. Use 'hashmap' or 'rocksdb'.")
        return BackendSettings(ROCKSDB, RocksSettings.from_configuration(configuration))

    def without_effect(self, keys: set[str]) -> set[str]:
        mine = keys & KEYS - {TYPE}
        if self.kind != ROCKSDB:
            return mine
        if self.rocks.memory is not None:
            return mine & ({BLOCK_CACHE} | ({MANAGED} if FIXED in keys else set()))
        return mine & {WRITE_RATIO}


def require_rocksdict() -> None:
    """RocksDB comes with an extra that need not be installed."""
    if importlib.util.find_spec("rocksdict") is None:
        raise EnvironmentSetupError(
            "the state backend 'rocksdb' needs the package rocksdict: pip install 'beadline[rocksdb]' where the job is "
            "started and on all workers, or use state.backend.type: hashmap"
        )


def _take(values: dict[str, Any], name: str, key: str, value: int | None, least: int) -> None:
    """The job's own settings win over predefined ones."""
    if value is None:
        return
    if value < least:
        raise ConfigurationError(f"{key} must be at least {least}, got {value}")
    values[name] = value


def _directories(configuration: Configuration) -> tuple[str, ...]:
    text = configuration.get_string(DIRECTORIES, None) or ""
    found = []
    for path in filter(None, map(str.strip, text.split(","))):
        local = local_path(path)
        if local is None:
            raise ConfigurationError(f"{DIRECTORIES}: {path!r} is not on a local disk")
        found.append(local)
    return tuple(found)
