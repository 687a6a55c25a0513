"""How an error is shown to a person: what happened, where in their code, and how to go on, in ten lines at most.

Frames of Beadline, of Spark and of Python's own machinery say nothing about the user's program, and a Java stack trace
still less. They are left out, unless :data:`VERBOSE` is set: then everything is shown as it came.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType

import beadline
from beadline.errors import BeadlineError
from beadline.shown_text import printable

#: The environment variable that asks for everything; ``beadline run -v`` sets it.
VERBOSE = "BEADLINE_VERBOSE"

#: Whoever writes to the terminal past ``sys.stderr`` does so in this context, with whether the text ends its line:
#: there may be a view of the job at the foot of the terminal.
around_writes: Callable[[bool], AbstractContextManager[None]]


def at_once(ends_line: bool) -> AbstractContextManager[None]:
    """There is nothing at the foot of the terminal."""
    return nullcontext()


around_writes = at_once

_MOST_LINES = 10
_LINES_OF_MESSAGE = 5
_LONGEST_LINE = 400
_LONGEST_LOG_LINE = 500
_FRAMES = 3
_FRAMES_IN_FULL = 50
_LONGEST_IN_FULL = 16_000

# Modules are known by their paths, because workers have them elsewhere than the driver, or in an archive.
_OTHERS = re.compile(
    r"^<frozen |/(?:site-packages|dist-packages)/(?:beadline|pyspark|py4j|cloudpickle)/|"
    r"\.zip/(?:beadline|pyspark|py4j)/|/python/(?:lib/)?pyspark/|"
    r"/lib/python3[^/]*/(?:runpy|contextlib|threading|selectors|socket|socketserver|pickle)\.py$|"
    r"/lib/python3[^/]*/(?:concurrent|importlib|asyncio)/"
)
_PACKAGE = os.path.dirname(beadline.__file__)
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+)(?:, in (?P<name>.+))?$')
_CHAINED = re.compile(
    r"\n(?:The above exception was the direct cause of the following exception|"
    r"During handling of the above exception, another exception occurred):\n\n"
)


def verbose() -> bool:
    """Whether everything is to be shown."""
    return os.environ.get(VERBOSE, "").strip().lower() not in ("", "0", "false", "no", "off")


def told(text: str) -> str:
    """A text as others may read it: with no passwords in it, and no commands to a terminal."""
    from beadline.common.secrets import without_passwords  # commands that meet no error don't need it

    return printable(without_passwords(text))


def shortened(text: str, limit: int = _LONGEST_LOG_LINE) -> str:
    """The text as one line that is not too long."""
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def first_line(error: BaseException) -> str:
    """The telling line of an error: the last ``SomethingError: …`` of a worker's or the JVM's traceback, if any."""
    if isinstance(error, BeadlineError):
        return shortened(told(str(error)).partition("\n")[0])
    lines = [re.sub("^(: |Caused by: )", "", line.strip()) for line in told(str(error)).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b.*:", line)]
    telling = raised[-1] if raised else lines[0] if lines else type(error).__name__
    return shortened(telling.partition(" Consider setting 'spark.")[0])


def is_machinery(file: str) -> bool:
    """Whether code in this file tells nothing about the user's program."""
    return file.startswith(_PACKAGE + os.sep) or _OTHERS.search(file) is not None


def place_in_program() -> str:
    """The line of the user's program that runs now, ``job.py:17``; empty if none does."""
    frame = sys._getframe(1)
    while is_machinery(frame.f_code.co_filename):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


# -- tracebacks as text, as they come from workers


@dataclass(frozen=True)
class _Frame:
    file: str
    line: int
    name: str
    code: str
    text: str

    @property
    def is_users(self) -> bool:
        return not is_machinery(self.file)

    def __str__(self) -> str:
        code = f": {shortened(self.code, 120)}" if self.code else ""
        name = f", in {self.name}" if self.name else ""
        return f"  at {self.file}, line {self.line}{name}{code}"


def folded(text: str, most: int = 10) -> str:
    """A traceback with the user's frames only, the innermost of them if there are many."""
    blocks = []
    for block in _CHAINED.split(text.rstrip()):
        frames, rest = _parse(block)
        own = [frame for frame in frames if frame.is_users]
        if not own:
            blocks.append(rest)
            continue
        left_out = [f"  … {len(own) - most} more\n"] if len(own) > most else []
        lines = ["Traceback (most recent call last):\n", *left_out, *(frame.text for frame in own[-most:]), rest]
        blocks.append("".join(lines))
    return "\nwhich led to:\n\n".join(blocks)


def where_raised(text: str) -> list[str]:
    """The innermost frames of the user's code, a line each, and what caused the error if that was another one."""
    blocks = _CHAINED.split(text.rstrip())
    frames = [frame for frame in _parse(blocks[-1])[0] if frame.is_users]
    lines = [f"  … {len(frames) - _FRAMES} more ({VERBOSE}=1 shows all)"] if len(frames) > _FRAMES else []
    lines += [str(frame) for frame in frames[-_FRAMES:]]
    if len(blocks) > 1:
        frames, rest = _parse(blocks[-2])
        place = next((str(frame) for frame in reversed(frames) if frame.is_users), "")
        lines = [*lines[-_FRAMES:], f"  caused by {shortened(rest.partition(chr(10))[0], 160)}{place[1:]}"]
    return lines


def _parse(block: str) -> tuple[list[_Frame], str]:
    """The frames of one traceback, and what follows them: the error and its message."""
    lines = block.splitlines(keepends=True)
    frames: list[_Frame] = []
    at = 0
    while at < len(lines) and (not frames or lines[at].startswith("  ")):
        found = _FRAME.match(lines[at].rstrip("\n"))
        at += 1
        if found is None:
            if frames or not lines[at - 1].startswith("Traceback "):
                at -= 1
                break
            continue
        end = at
        while end < len(lines) and lines[end].startswith("    "):
            end += 1
        code = lines[at].strip() if end > at else ""
        frames.append(
            _Frame(found["file"], int(found["line"]), found["name"] or "", code, "".join(lines[at - 1 : end]))
        )
        at = end
        if at < len(lines) and lines[at].startswith("  [Previous line repeated"):
            at += 1
    return frames, "".join(lines[at:]).strip("\n")


# -- errors on their way to the user


def in_full(error: BaseException) -> str:
    """An error for a page that has room: what happened, the user's line, then the traceback with the user's frames."""
    text = getattr(error, "full_traceback", None) or "".join(traceback.format_exception(error))
    said = str(error).strip() or type(error).__name__
    shown = [said, *where_raised(text), "", folded(text, _FRAMES_IN_FULL)]
    return "\n".join(shown)[:_LONGEST_IN_FULL]


def bare(error: BaseException) -> BaseException:
    """The error without the frames that it came through, and without the error of Spark or Python that led to it."""
    if verbose():
        return error
    if isinstance(error, BeadlineError):
        error.__cause__ = None
        error.__suppress_context__ = True
        return error.with_traceback(None)
    return error.with_traceback(_users(error.__traceback__))


def _users(tb: TracebackType | None) -> TracebackType | None:
    """The user's part of a traceback; all of it if nothing else is there, because then it is a fault of Beadline."""
    frames = []
    at = tb
    while at is not None:
        if not is_machinery(at.tb_frame.f_code.co_filename):
            frames.append(at)
        at = at.tb_next
    made: TracebackType | None = None
    for frame in reversed(frames):
        made = TracebackType(made, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return made or tb


def report(error: BaseException, started: traceback.FrameSummary | None = None) -> list[str]:
    """The lines to print of an error; ``started`` is the line of the user's program that called Beadline."""
    said = [line for line in told(str(error)).splitlines() if line.strip()] or [type(error).__name__]
    lines = [_indented(line) for line in said[:_LINES_OF_MESSAGE]]
    if len(said) > _LINES_OF_MESSAGE:
        lines[-1] += " …"
    notes = [line for note in getattr(error, "__notes__", ()) for line in told(note).splitlines() if line.strip()]
    frames = [line for line in notes if line.startswith(" ")]
    ends = [_indented(line) for line in notes if not line.startswith(" ")][: _MOST_LINES - _LINES_OF_MESSAGE - 1]
    if started is not None:
        code = f": {shortened(told(started.line), 120)}" if started.line else ""
        ends.insert(0, f"  at {started.filename}, line {started.lineno}{code}")
    room = _MOST_LINES - len(lines) - len(ends)
    return lines + frames[max(0, len(frames) - room) :] + ends


def _indented(line: str) -> str:
    return line[: len(line) - len(line.lstrip())] + shortened(line, _LONGEST_LINE)


def line_of_user(tb: TracebackType | None) -> traceback.FrameSummary | None:
    """The line of the user's code that called Beadline."""
    found = None
    for frame in traceback.extract_tb(tb):
        if frame.filename.startswith(_PACKAGE + os.sep):
            break
        if frame.line:  # frames of the import system have none
            found = frame
    return found


def whole(error: BaseException) -> str:
    """All of an error, as Python shows it, for a terminal or a log."""
    return told("".join(traceback.format_exception(error)))


def install() -> None:
    """Show uncaught errors of Beadline in short form, in a program without a hook of its own."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _hook


def _hook(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
    if not isinstance(error, BeadlineError) or sys.stderr is None:
        sys.__excepthook__(kind, error, tb)
        return
    if verbose():
        print(whole(error.with_traceback(tb)), end="", file=sys.stderr)
        return
    first, *rest = report(error, line_of_user(tb))
    print(f"{kind.__module__}.{kind.__qualname__}: {first}", *rest, sep="\n", file=sys.stderr)
