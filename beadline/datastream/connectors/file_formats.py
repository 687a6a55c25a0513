"""How files are read."""

from __future__ import annotations

import codecs
from typing import Any

from beadline.errors import ConfigurationError, UnsupportedFeatureError


class StreamFormat:
    """A format that is read record by record."""

    def __init__(self, charset: str) -> None:
        try:
            codecs.lookup(charset)
        except LookupError:
            raise ConfigurationError(f"unknown charset: {charset!r}") from None
        self.charset = charset

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """One record per line."""
        return StreamFormat(charset_name)


class BulkFormat:
    """Columnar formats."""

    def __init__(self, *_: Any) -> None:
        raise UnsupportedFeatureError("bulk file formats are not supported by Beadline yet")
