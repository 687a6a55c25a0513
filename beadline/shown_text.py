"""How text from outside is shown on a terminal: letters only, never commands to the terminal.

Records, names of jobs and texts of errors come from anywhere. Written as it is, an escape sequence among them clears
the screen, sets the title or fills the clipboard, a carriage return overwrites what stands before it, and a change of
direction makes a line read as another one. So these characters are shown as Python writes them: ``\\x1b``, ``\\u202e``.
"""

from __future__ import annotations

import re

# C0 but tab and line feed, DEL and C1; separators of lines; marks, embeddings, overrides and isolates of direction.
_COMMANDS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)")
_CONTROLS_OF_LINES = re.compile("[\t\n\r]")


def printable(text: str) -> str:
    """The text with its lines and tabs, and with all other control characters made visible."""
    return text if text.isascii() and text.isprintable() else _COMMANDS.sub(_visible, text)


def printable_line(text: str) -> str:
    """Likewise, as a part of one line: line feeds and tabs are made visible too."""
    return _CONTROLS_OF_LINES.sub(_visible, printable(text))


def _visible(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
