"""The programs in the documentation: what is between the fences, and what a page says about running it.

A page's Python blocks are one program: they run in order, in one process. An HTML comment before a block, which readers
of the page don't see, may say more:

* ``<!-- given: CODE -->``: runs first. It makes what the text takes for granted.
* ``<!-- not run: REASON -->``: the block is left out. There are few.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_PART = re.compile(
    r"<!-- given:(?P<given>.*?)-->|<!-- not run:(?P<reason>.*?)-->|^```python\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A block of Python; ``line`` is where its page has it, ``reason`` why it is not run."""

    line: int
    code: str
    reason: str | None = None


def blocks(text: str) -> list[Block]:
    """Everything that a page has to run, in order."""
    found: list[Block] = []
    reason: str | None = None
    for match in _PART.finditer(text):
        line = text[: match.start()].count("\n") + 2
        if match["given"] is not None:
            found.append(Block(line - 1, match["given"].strip("\n")))
        elif match["reason"] is not None:
            reason = match["reason"].strip()
        else:
            found.append(Block(line, match["code"], reason))
            reason = None
    return found


def program(text: str) -> str:
    """The page as one program, with each line where the page has it, so that a traceback can be read."""
    lines: list[str] = []
    for block in blocks(text):
        if block.reason is None:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.code.splitlines()
    return "\n".join(lines) + "\n"


def pages() -> list[Path]:
    """All that is written for users."""
    return [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "README.zh.md"]
