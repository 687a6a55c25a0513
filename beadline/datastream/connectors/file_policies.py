"""Where the records of a file sink go, when a file is complete, and what it is called."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any, Self
from zoneinfo import ZoneInfo

from beadline.connectors import files
from beadline.errors import ConfigurationError, TypeMismatchError


class BucketAssigner:
    """Which folder below the base path a record goes to."""

    def __init__(self, bucket_of: Callable[[Any, int], str]) -> None:
        self.bucket_of = bucket_of

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        return BucketAssigner(_no_bucket)

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        return BucketAssigner(_DateTimeBucket(format_str, timezone_id))


def _no_bucket(record: Any, now: int) -> str:
    return ""


_PATTERN = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "yy": "%y"}


class _DateTimeBucket:
    """A folder per hour or whatever the Java-style pattern says, by processing time."""

    def __init__(self, pattern: str, timezone_id: str | None) -> None:
        known = re.compile("|".join(sorted(_PATTERN, key=len, reverse=True)))
        rest = re.sub(r"'[^']*'", "", known.sub("", pattern))
        if re.search("[a-zA-Z]", rest):
            raise ConfigurationError(
                f"date_time_bucket_assigner: pattern '{pattern}' has letters other than {sorted(_PATTERN)}"
            )
        self._format = known.sub(lambda found: _PATTERN[found.group()], pattern).replace("'", "")
        self._zone = timezone_id
        self._last: tuple[int, str] | None = None

    def __call__(self, record: Any, now: int) -> str:
        if self._last is None or self._last[0] != now:
            zone = ZoneInfo(self._zone) if self._zone else None
            self._last = now, dt.datetime.fromtimestamp(now / 1000, zone).strftime(self._format)
        return self._last[1]


class RollingPolicy:
    """When a part file is complete."""

    def __init__(self, policy: files.RollingPolicy) -> None:
        self.policy = policy

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 << 20, rollover_interval: int = 60_000, inactivity_interval: int = 60_000
    ) -> DefaultRollingPolicy:
        if min(part_size, rollover_interval, inactivity_interval) <= 0:
            raise ConfigurationError("default_rolling_policy(): size and intervals must be positive")
        return DefaultRollingPolicy(files.RollingPolicy(part_size, rollover_interval, inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        return OnCheckpointRollingPolicy(files.RollingPolicy(on_checkpoint=True))


class DefaultRollingPolicy(RollingPolicy):
    """By size, age and inactivity."""


class OnCheckpointRollingPolicy(RollingPolicy):
    """With checkpoints; without them, at the end of the job."""


class OutputFileConfig:
    """Prefix and suffix of part files."""

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        self._prefix = part_prefix
        self._suffix = part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        return self._prefix

    def get_part_suffix(self) -> str:
        return self._suffix

    class OutputFileConfigBuilder:
        def __init__(self) -> None:
            self._prefix, self._suffix = "part", ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            return OutputFileConfig(self._prefix, self._suffix)


class FileCompactStrategy:
    """When the complete files of a bucket become one: ``FileCompactStrategy.builder().set_size_threshold(…).build()``.

    They are not visible before. Whichever condition comes first counts.
    """

    def __init__(self, size_threshold: int | None, checkpoints: int | None) -> None:
        self._size = size_threshold
        self._checkpoints = checkpoints

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        return FileCompactStrategy.Builder()

    class Builder:
        """Sets up a :class:`FileCompactStrategy`."""

        def __init__(self) -> None:
            self._size: int | None = None
            self._checkpoints: int | None = None

        def set_size_threshold(self, size_threshold: int) -> Self:
            """How many bytes the files of a bucket must have together."""
            self._size = _positive("set_size_threshold", size_threshold)
            return self

        def enable_compaction_on_checkpoint(self, num_checkpoints_before_compaction: int) -> Self:
            """After how many checkpoints, however small the files are."""
            self._checkpoints = _positive("enable_compaction_on_checkpoint", num_checkpoints_before_compaction)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> Self:
            """Has no effect: files are put together where they are made ready, in as many tasks as there are files."""
            _positive("set_num_compact_threads", num_compact_threads)
            return self

        def build(self) -> FileCompactStrategy:
            if self._size is None and self._checkpoints is None:
                raise ConfigurationError(
                    "FileCompactStrategy needs a condition: call set_size_threshold() or "
                    "enable_compaction_on_checkpoint()"
                )
            return FileCompactStrategy(self._size, self._checkpoints)


class FileCompactor:
    """How the files of a bucket become one."""

    def __init__(self, merge: bool, delimiter: bytes) -> None:
        self._merge = merge
        self._delimiter = delimiter

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """One after the other. Files of a bulk format become one file of that format, with all their records.

        :param file_delimiter: what comes between them
        """
        return FileCompactor(True, file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Each stays as it is."""
        return FileCompactor(False, b"")


def compaction_of(strategy: object, compactor: object, may_delimit: bool) -> files.Compaction:
    """What a sink does, from what a program says."""
    if not isinstance(strategy, FileCompactStrategy) or not isinstance(compactor, FileCompactor):
        raise TypeMismatchError(
            f"enable_compact() takes a FileCompactStrategy and a FileCompactor, got {strategy!r} and {compactor!r}"
        )
    if compactor._delimiter and not may_delimit:
        raise ConfigurationError(
            "concat_file_compactor(): there can't be a delimiter in files of a bulk format; leave file_delimiter out"
        )
    return files.Compaction(strategy._size, strategy._checkpoints, compactor._merge, compactor._delimiter)


def _positive(method: str, value: int) -> int:
    if value <= 0:
        raise ConfigurationError(f"{method}() takes a positive number, got {value}")
    return value
