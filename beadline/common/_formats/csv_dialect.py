"""How a CSV text is cut into rows and fields, and put together again.

Texts are quoted where Flink's library (Jackson) quotes them: if they have a character up to the separator, the quote
or the end of a line in the code table, or are longer than 24 characters.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beadline.errors import ConfigurationError, SerializationError

_UNCHECKED = 24
_LONGEST_FIELD = (1 << 31) - 1


@dataclass(frozen=True)
class CsvDialect:
    """The characters with a meaning.

    :ivar quote: None for no quoting
    :ivar escape: takes the meaning from the next character; None for none
    :ivar null: what stands for null. By default nothing in a text field does, and null is written as nothing
    :ivar comments: whether lines that begin with ``#`` are left out
    """

    separator: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null: str | None = None
    comments: bool = False
    line_end: str = "\n"

    def __post_init__(self) -> None:
        for what, character in (("separator", self.separator), ("quote", self.quote), ("escape", self.escape)):
            if character is not None and (len(character) != 1 or character in "\r\n"):
                raise ConfigurationError(f"CSV: the {what} must be one character, got {character!r}")
        if self.separator in (self.quote, self.escape):
            raise ConfigurationError(f"CSV: {self.separator!r} can't be the separator and a quote or escape as well")

    # -- reading

    def rows(self, text: str) -> list[list[str]]:
        """The fields of all rows. Empty lines give empty rows.

        :raises ValueError: the quotes don't fit together
        """
        if csv.field_size_limit() != _LONGEST_FIELD:
            csv.field_size_limit(_LONGEST_FIELD)
        lines: Any = io.StringIO(text, newline="")
        if self.comments:
            lines = self._without_comments(text)
        try:
            return list(csv.reader(lines, **self._options()))
        except csv.Error as error:
            raise ValueError(str(error)) from None

    def _options(self) -> dict[str, Any]:
        quoting = csv.QUOTE_MINIMAL if self.quote is not None else csv.QUOTE_NONE
        return {
            "delimiter": self.separator,
            "quotechar": self.quote,
            "quoting": quoting,
            "escapechar": self.escape,
            "strict": True,
        }

    def _without_comments(self, text: str) -> list[str]:
        """Lines, without those that begin with ``#`` where a row begins."""
        kept: list[str] = []
        open_quote = False
        for line in io.StringIO(text, newline=""):
            if not open_quote and line.startswith("#"):
                continue
            kept.append(line)
            open_quote ^= bool(self._quotes(line) & 1)
        return kept

    def _quotes(self, text: str) -> int:
        if self.quote is None:
            return 0
        if self.escape is not None and self.escape in text:
            text = re.sub(re.escape(self.escape) + ".", "", text, flags=re.DOTALL)
        return text.count(self.quote)

    # -- where rows end, in bytes (of UTF-8)

    def odd_quotes(self, data: bytes) -> bool:
        """Whether a quoted field that begins in the data, or before it, changes from open to closed or back.

        A quote inside an unquoted field counts as well, though it has no meaning there."""
        if self.quote is None:
            return False
        if self.escape is not None and (escape := self.escape.encode()) in data:
            data = re.sub(re.escape(escape) + b".", b"", data, flags=re.DOTALL)
        return bool(data.count(self.quote.encode()) & 1)

    def first_row_end(self, data: bytes, open_quote: bool, start: int = 0) -> tuple[int | None, bool]:
        """Where the first row that ends in the data ends, None if none does; and whether a quote is open then.
        A comment counts as a row."""
        at = start
        while (feed := data.find(b"\n", at)) >= 0:
            if self.comments and not open_quote and data[at : at + 1] == b"#":
                return feed + 1, False
            open_quote ^= self.odd_quotes(data[at:feed])
            if not open_quote:
                return feed + 1, False
            at = feed + 1
        return None, open_quote ^ self.odd_quotes(data[at:])

    def last_row_end(self, data: bytes) -> int:
        """Where the last whole row of data that begins with a row ends; 0 if there is none."""
        if self.comments:  # quotes in them don't count, so they must be found from the beginning
            at = 0
            while (row_end := self.first_row_end(data, False, at)[0]) is not None:
                at = row_end
            return at
        open_quote = self.odd_quotes(data)
        end = len(data)
        while (feed := data.rfind(b"\n", 0, end)) >= 0:
            open_quote ^= self.odd_quotes(data[feed:end])
            if not open_quote:
                return feed + 1
            end = feed
        return 0

    def split(self, data: bytes) -> list[bytes]:
        """The rows of data that begins with a row, with their line ends."""
        rows: list[bytes] = []
        at = 0
        while at < len(data):
            end, _ = self.first_row_end(data, False, at)
            rows.append(data[at : end or len(data)])
            at = end or len(data)
        return rows

    # -- writing

    def line(self, fields: list[str | None], raw: Sequence[bool]) -> str:
        """A row, without its end.

        :param raw: which fields are numbers and the like, which are not quoted
        """
        unsafe = max(self.separator, self.quote or "", *self.line_end)
        separator = self.separator
        return separator.join(
            [
                field if plain and field is not None and separator not in field else self._written(field, unsafe)
                for field, plain in zip(fields, raw, strict=True)
            ]
        )

    def _written(self, field: str | None, unsafe: str) -> str:
        """:param unsafe: the last character in the code table with a meaning; it and all before it are quoted"""
        if field is None:
            return self.null or ""
        if self.quote is None:
            return self._unquoted(field)
        plain = len(field) <= _UNCHECKED and (not field or min(field) > unsafe) and field != self.null
        if plain and (self.escape is None or self.escape not in field):
            return field
        if self.escape is not None:
            field = field.replace(self.escape, self.escape * 2)
        return f"{self.quote}{field.replace(self.quote, self.quote * 2)}{self.quote}"

    def _unquoted(self, field: str) -> str:
        if self.escape is not None:
            field = field.replace(self.escape, self.escape * 2).replace(self.separator, self.escape + self.separator)
            special = "\r\n"
        else:
            special = f"{self.separator}\r\n"
        if any(character in field for character in special):
            raise SerializationError(
                f"CSV without quotes can't hold {field!r}: it has the separator or an end of line in it. Set a quote "
                "character"
            )
        return field
