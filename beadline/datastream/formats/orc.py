"""ORC, where PyFlink has it: files of rows."""

from __future__ import annotations

from typing import Any

from beadline.common import Configuration
from beadline.common.serialization import BulkWriterFactory, RowDataBulkWriterFactory
from beadline.connectors.files.encodings.columns import OrcEncoding
from beadline.errors import ConfigurationError, UnsupportedFeatureError
from beadline.table.arrow import arrow_schema
from beadline.table.types import RowType, TimeType, checked_row_type, refused_type

__all__ = ["OrcBulkWriters"]

_COMPRESSION = {"none": "uncompressed", "zlib": "zlib", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
_KEYS = ("orc.compress", "orc.stripe.size")


class OrcBulkWriters:
    """Rows as ORC files."""

    @staticmethod
    def for_row_type(
        row_type: RowType,
        writer_properties: Configuration | None = None,
        hadoop_config: Configuration | None = None,
    ) -> BulkWriterFactory:
        """``FileSink.for_bulk_format(path, OrcBulkWriters.for_row_type(row_type))``

        :param writer_properties: may have ``orc.compress`` (by default ZLIB) and ``orc.stripe.size``
        :param hadoop_config: must be empty: no Hadoop is involved
        """
        checked_row_type(row_type, "OrcBulkWriters.for_row_type")
        for field in row_type:
            if isinstance(field.data_type, TimeType):
                raise refused_type(field.data_type, "ORC")
        if hadoop_config is not None and hadoop_config.to_dict():
            raise UnsupportedFeatureError(
                f"OrcBulkWriters: the Hadoop settings {sorted(hadoop_config.to_dict())} are not supported; leave them "
                "out"
            )
        encoding = OrcEncoding(arrow_schema(row_type), _options(writer_properties))
        return RowDataBulkWriterFactory._of_rows(encoding, row_type)


def _options(config: Configuration | None) -> dict[str, Any]:
    given = {} if config is None else config.to_dict()
    unknown = sorted(set(given) - set(_KEYS))
    if unknown:
        raise UnsupportedFeatureError(
            f"OrcBulkWriters: the writer properties {unknown} are not supported; those that are: {list(_KEYS)}"
        )
    name = given.get("orc.compress", "ZLIB").lower()
    if name not in _COMPRESSION:
        raise ConfigurationError(f"orc.compress: {name!r} is not one of {sorted(_COMPRESSION)}")
    options: dict[str, Any] = {"compression": _COMPRESSION[name]}
    if "orc.stripe.size" in given:
        options["stripe_size"] = int(given["orc.stripe.size"])
    return options
