"""Rows to files that are complete when they appear, and appear once.

``sink`` writes pieces in tasks, ``committer`` gathers them into parts on the driver, and a ``place`` knows how a part
appears: by a rename (``renaming``) or by the end of a multipart upload (``s3``).
"""

from beadline.connectors.files.bulk import BulkEncoding, BulkFileSink, PieceWriter
from beadline.connectors.files.sink import Compaction, RollingPolicy, RowFileSink

__all__ = ["BulkEncoding", "BulkFileSink", "Compaction", "PieceWriter", "RollingPolicy", "RowFileSink"]
