"""Files in and out."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any, Self
from zoneinfo import ZoneInfo

from beadline.api.sinks import SinkFunction
from beadline.common import Duration, Encoder
from beadline.common.serialization import BulkWriterFactory as BulkWriterFactory
from beadline.common.serialization import RowDataBulkWriterFactory as RowDataBulkWriterFactory
from beadline.common.typeinfo import TypeInformation, Types
from beadline.common.utils import JavaObjectWrapper as JavaObjectWrapper
from beadline.connectors import files
from beadline.connectors.file_source.text import TextFileSource
from beadline.connectors.files import RowFileSink
from beadline.connectors.files.place import check_base
from beadline.datastream.connectors.base import Sink, Source
from beadline.datastream.connectors.base import StreamTransformer as StreamTransformer
from beadline.datastream.connectors.base import SupportsPreprocessing as SupportsPreprocessing
from beadline.datastream.connectors.file_formats import BulkFormat, StreamFormat
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]


class FileSourceBuilder:
    """Sets up a :class:`FileSource`."""

    def __init__(self, stream_format: StreamFormat, paths: tuple[str, ...]) -> None:
        self._format = stream_format
        self._paths = list(paths)
        self._monitor: float | None = None
        self._splittable = True

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Go on looking for new files, for ever."""
        self._monitor = discovery_interval.to_millis() / 1000
        if self._monitor <= 0:
            raise ConfigurationError(f"the discovery interval must be positive, got {discovery_interval!r}")
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there when the job starts, and end."""
        self._monitor = None
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        self._splittable = file_enumerator.splittable
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise TypeMismatchError(f"a FileSplitAssignerProvider is needed, got {split_assigner!r}")
        return self

    def build(self) -> FileSource:
        return FileSource(TextFileSource(self._paths, self._format.charset, self._monitor, self._splittable))


class FileSource(Source):
    """Lines of files: ``FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()``."""

    _produced_type = Types.STRING()

    def __init__(self, source: TextFileSource) -> None:
        self._source = source

    def _make_source(self) -> TextFileSource:
        return self._source

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        if not isinstance(stream_format, StreamFormat):
            raise UnsupportedFeatureError(
                f"FileSource reads StreamFormat.text_line_format(); {type(stream_format).__name__} is "
                "not supported by Beadline yet"
            )
        if not paths:
            raise ConfigurationError("FileSource needs at least one path")
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        raise UnsupportedFeatureError("FileSource.for_bulk_file_format() is not supported by Beadline yet")


class FileEnumeratorProvider:
    """Whether a file may be read in parts."""

    def __init__(self, splittable: bool) -> None:
        self.splittable = splittable

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        return FileEnumeratorProvider(True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        return FileEnumeratorProvider(False)


class FileSplitAssignerProvider:
    """Which subtask reads which part. Spark places the tasks, so there is one kind."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        return FileSplitAssignerProvider()


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
    """Compaction of part files is not supported yet."""

    @staticmethod
    def builder() -> Any:
        raise UnsupportedFeatureError("compaction of part files (FileCompactStrategy) is not supported by Beadline yet")


class FileCompactor:
    """Compaction of part files is not supported yet."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> Any:
        raise UnsupportedFeatureError("compaction of part files (FileCompactor) is not supported by Beadline yet")

    @staticmethod
    def identical_file_compactor() -> Any:
        raise UnsupportedFeatureError("compaction of part files (FileCompactor) is not supported by Beadline yet")


class FileSink(Sink):
    """Rows to files: ``FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()``.

    The path is on a mounted file system, an ``s3://`` URI (with ``pip install 'beadline[s3]'``) or an ``hdfs://``
    one. A file appears when it is complete, and once: what you move or delete does not come back.
    """

    def __init__(self, builder: FileSink.RowFormatBuilder) -> None:
        self._builder = builder

    def _make_sink(self, type_info: TypeInformation) -> RowFileSink:
        builder = self._builder
        return RowFileSink(
            builder._base_path,
            _TextEncoder(builder._encoder, type_info),
            builder._bucket_assigner.bucket_of,
            builder._policy.policy,
            builder._config.get_part_prefix(),
            builder._config.get_part_suffix(),
        )

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        return FileSink.RowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: Any) -> Any:
        raise UnsupportedFeatureError("FileSink.for_bulk_format() is not supported by Beadline yet")

    class RowFormatBuilder:
        """Sets up a :class:`FileSink`."""

        def __init__(self, base_path: str, encoder: Encoder) -> None:
            check_base(base_path)
            self._base_path = base_path
            self._encoder = encoder
            self._bucket_assigner: BucketAssigner = BucketAssigner.date_time_bucket_assigner()
            self._policy: RollingPolicy = RollingPolicy.default_rolling_policy()
            self._config = OutputFileConfig("part", "")

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Has no effect: rolling is checked whenever a step is sealed, which is at least as often."""
            if interval <= 0:
                raise ConfigurationError(f"the bucket check interval must be positive, got {interval}")
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
            self._bucket_assigner = bucket_assigner
            return self

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            self._policy = rolling_policy
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            self._config = output_file_config
            return self

        def enable_compact(self, strategy: Any, compactor: Any) -> FileSink.RowFormatBuilder:
            raise UnsupportedFeatureError("FileSink.enable_compact() is not supported by Beadline yet")

        def disable_compact(self) -> Self:
            return self

        def build(self) -> FileSink:
            return FileSink(self)


class _TextEncoder:
    """Gives an encoder the text that Flink would give it: a typed element as Java shows it."""

    def __init__(self, encoder: Encoder, type_info: TypeInformation) -> None:
        self._encode = encoder.encode
        self._type = type_info
        self._text: Callable[[Any], str] | None = None

    def __call__(self, record: Any) -> bytes:
        if self._text is None:
            self._text = self._type.java_text()
        return self._encode(self._text(record))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_text": None}


class StreamingFileSink(SinkFunction):
    """PyFlink 1.x's file sink, for ``add_sink()``: it writes what a :class:`FileSink` writes."""

    def __init__(self, file_sink: FileSink) -> None:
        self._make_sink = file_sink._make_sink

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> StreamingFileSink.DefaultRowFormatBuilder:
        return StreamingFileSink.DefaultRowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: Any) -> Any:
        raise UnsupportedFeatureError("StreamingFileSink.for_bulk_format() is not supported by Beadline yet")

    class DefaultRowFormatBuilder(FileSink.RowFormatBuilder):
        """Sets up a :class:`StreamingFileSink`."""

        def with_rolling_policy(self, policy: RollingPolicy) -> Self:
            return super().with_rolling_policy(policy)

        def build(self) -> StreamingFileSink:  # type: ignore[override]
            return StreamingFileSink(FileSink(self))
