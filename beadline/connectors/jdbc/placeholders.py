"""The question marks of a statement: JDBC's sign for a value."""

from __future__ import annotations

import re
from collections.abc import Iterator

# What may hold a question mark that is none: texts, quoted names, comments, texts between dollars; and ``??``, which is
# JDBC's way to write an operator with a question mark.
_TOKENS = re.compile(
    r"""
    (?P<opaque>
        '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$
    )
    | (?P<operator>\?\?)
    | (?P<value>\?)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def _tokens(statement: str) -> Iterator[tuple[str, str]]:
    for found in _TOKENS.finditer(statement):
        kind = found.lastgroup or "opaque"
        yield ("opaque" if kind == "tag" else kind), found.group()


def count(statement: str) -> int:
    """How many values a statement takes."""
    return sum(kind == "value" for kind, _ in _tokens(statement))


def for_psycopg(statement: str) -> str:
    """The statement with psycopg's sign for a value."""
    written = {"value": "%s", "operator": "?"}
    return "".join(written.get(kind) or text.replace("%", "%%") for kind, text in _tokens(statement))
