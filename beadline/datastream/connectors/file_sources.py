"""Files in."""

from __future__ import annotations

from beadline.common import Duration
from beadline.connectors.file_source.source import FilesSource
from beadline.datastream.connectors.base import Source
from beadline.datastream.connectors.file_formats import BulkFormat, StreamFormat
from beadline.errors import ConfigurationError, TypeMismatchError


class FileSourceBuilder:
    """Sets up a :class:`FileSource`."""

    def __init__(self, file_format: StreamFormat | BulkFormat, paths: tuple[str, ...]) -> None:
        if not paths:
            raise ConfigurationError("FileSource needs at least one path")
        self._format = file_format
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
        made = FileSource(self._format._files(self._paths, self._monitor, self._splittable))
        made._produced_type = self._format._produced_type
        return made


class FileSource(Source):
    """Records of files: ``FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()``."""

    def __init__(self, source: FilesSource) -> None:
        self._source = source

    def _make_source(self) -> FilesSource:
        return self._source

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Lines of text, CSV (``CsvReaderFormat``), Avro (``AvroReaderFormat``) and Parquet as records of Avro
        (``AvroParquetReaders``)."""
        if not isinstance(stream_format, StreamFormat):
            raise TypeMismatchError(
                f"for_record_stream_format() takes a StreamFormat, such as StreamFormat.text_line_format(), got "
                f"{stream_format!r}"
            )
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Parquet as rows (``ParquetColumnarRowInputFormat``)."""
        if not isinstance(bulk_format, BulkFormat):
            raise TypeMismatchError(
                f"for_bulk_file_format() takes a BulkFormat, such as ParquetColumnarRowInputFormat(…), got "
                f"{bulk_format!r}"
            )
        return FileSourceBuilder(bulk_format, paths)


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
