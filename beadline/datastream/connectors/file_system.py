"""Files in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from beadline.api.sinks import SinkFunction
from beadline.common import Duration as Duration
from beadline.common import Encoder
from beadline.common.serialization import BulkWriterFactory
from beadline.common.serialization import RowDataBulkWriterFactory as RowDataBulkWriterFactory
from beadline.common.typeinfo import TypeInformation
from beadline.common.utils import JavaObjectWrapper as JavaObjectWrapper
from beadline.connectors.files import BulkFileSink, Compaction, RowFileSink
from beadline.connectors.files.place import check_base
from beadline.connectors.files.sink import FileSinkBase
from beadline.datastream.connectors.base import Sink
from beadline.datastream.connectors.base import Source as Source
from beadline.datastream.connectors.base import StreamTransformer as StreamTransformer
from beadline.datastream.connectors.base import SupportsPreprocessing as SupportsPreprocessing
from beadline.datastream.connectors.file_formats import BulkFormat, StreamFormat
from beadline.datastream.connectors.file_policies import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
    compaction_of,
)
from beadline.datastream.connectors.file_policies import DefaultRollingPolicy as DefaultRollingPolicy
from beadline.datastream.connectors.file_sources import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)
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


class FileSink(Sink):
    """Records to files: ``FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()``, or
    ``FileSink.for_bulk_format(path, ParquetBulkWriters.for_row_type(…)).build()``.

    The path is on a mounted file system, an ``s3://`` URI (with ``pip install 'beadline[s3]'``) or an ``hdfs://``
    one. A file appears when it is complete, and once: what you move or delete does not come back.
    """

    def __init__(self, builder: FileSink.BaseBuilder) -> None:
        self._builder = builder

    def _make_sink(self, type_info: TypeInformation) -> FileSinkBase:
        return self._builder._make_sink(type_info)

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Files to which rows are added one by one."""
        return FileSink.RowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Files of a format with a beginning and an end; they are complete with each checkpoint."""
        return FileSink.BulkFormatBuilder(base_path, writer_factory)

    class BaseBuilder:
        """What can be set for all formats."""

        _may_delimit = True

        def __init__(self, base_path: str, policy: RollingPolicy) -> None:
            check_base(base_path)
            self._base_path = base_path
            self._bucket_assigner: BucketAssigner = BucketAssigner.date_time_bucket_assigner()
            self._policy = policy
            self._config = OutputFileConfig("part", "")
            self._compaction: Compaction | None = None

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

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
            """Let the complete files of a bucket, those of all subtasks, become one before they are visible."""
            self._compaction = compaction_of(strategy, compactor, self._may_delimit)
            return self

        def disable_compact(self) -> Self:
            self._compaction = None
            return self

        def build(self) -> FileSink:
            return FileSink(self)

        def _make_sink(self, type_info: TypeInformation) -> FileSinkBase:
            raise NotImplementedError

    class RowFormatBuilder(BaseBuilder):
        """Sets up a :class:`FileSink` that writes rows."""

        def __init__(self, base_path: str, encoder: Encoder) -> None:
            super().__init__(base_path, RollingPolicy.default_rolling_policy())
            self._encoder = encoder

        def _make_sink(self, type_info: TypeInformation) -> RowFileSink:
            return RowFileSink(
                self._base_path,
                _TextEncoder(self._encoder, type_info),
                self._bucket_assigner.bucket_of,
                self._policy.policy,
                self._config.get_part_prefix(),
                self._config.get_part_suffix(),
                compaction=self._compaction,
            )

    class BulkFormatBuilder(BaseBuilder):
        """Sets up a :class:`FileSink` that writes files of a bulk format."""

        _may_delimit = False

        def __init__(self, base_path: str, writer_factory: BulkWriterFactory) -> None:
            super().__init__(base_path, RollingPolicy.on_checkpoint_rolling_policy())
            if not isinstance(writer_factory, BulkWriterFactory):
                raise TypeMismatchError(
                    "for_bulk_format() takes a BulkWriterFactory, such as ParquetBulkWriters.for_row_type(…), got "
                    f"{writer_factory!r}"
                )
            self._encoding = writer_factory._encoding

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                raise UnsupportedFeatureError(
                    "files of a bulk format are complete with each checkpoint: use "
                    "RollingPolicy.on_checkpoint_rolling_policy()"
                )
            return super().with_rolling_policy(rolling_policy)

        def _make_sink(self, type_info: TypeInformation) -> BulkFileSink:
            return BulkFileSink(
                self._base_path,
                self._encoding,
                self._bucket_assigner.bucket_of,
                self._policy.policy,
                self._config.get_part_prefix(),
                self._config.get_part_suffix(),
                compaction=self._compaction,
            )


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
    def for_bulk_format(
        base_path: str, writer_factory: BulkWriterFactory
    ) -> StreamingFileSink.DefaultBulkFormatBuilder:
        return StreamingFileSink.DefaultBulkFormatBuilder(base_path, writer_factory)

    class DefaultRowFormatBuilder(FileSink.RowFormatBuilder):
        """Sets up a :class:`StreamingFileSink` that writes rows."""

        def with_rolling_policy(self, policy: RollingPolicy) -> Self:
            return super().with_rolling_policy(policy)

        def build(self) -> StreamingFileSink:  # type: ignore[override]
            return StreamingFileSink(FileSink(self))

    class DefaultBulkFormatBuilder(FileSink.BulkFormatBuilder):
        """Sets up a :class:`StreamingFileSink` that writes files of a bulk format."""

        def with_rolling_policy(self, policy: RollingPolicy) -> Self:
            return super().with_rolling_policy(policy)

        def build(self) -> StreamingFileSink:  # type: ignore[override]
            return StreamingFileSink(FileSink(self))
