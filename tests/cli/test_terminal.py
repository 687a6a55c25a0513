"""Lines at the foot of a terminal, and what a program prints above them."""

from __future__ import annotations

import io
import re

from rich.console import Console

from beadline.cli.jobs import with_directory
from beadline.cli.progress import JobProgress
from beadline.cli.terminal import Above, Footer
from beadline.cli.view import rendered
from beadline.master.reporting.news import CheckpointChanged, StatusChanged, StepReport


def screen(written: str) -> list[str]:
    """What a terminal shows after this was written: it knows lines, and the code that hides some."""
    lines = [""]
    for part in re.split(r"(\x1b\[\d+A\r\x1b\[J|\n)", written):
        hidden = re.fullmatch(r"\x1b\[(\d+)A\r\x1b\[J", part)
        if hidden is not None:
            lines = [*lines[: len(lines) - 1 - int(hidden[1])], ""]
        elif part == "\n":
            lines.append("")
        else:
            lines[-1] += part
    return lines


class TestFooter:
    def test_prints_appear_above_it_in_their_order(self) -> None:
        terminal = io.StringIO()
        footer = Footer(terminal)
        out = Above(terminal, footer)
        for number in range(3):
            footer.draw(lambda number=number: [f"view {number}", "more of it"])
            print("line", number, file=out)
        assert screen(terminal.getvalue()) == ["line 0", "line 1", "line 2", ""]
        footer.draw(lambda: ["last view"])
        assert screen(terminal.getvalue()) == ["line 0", "line 1", "line 2", "last view", ""]

    def test_it_waits_while_a_line_is_open(self) -> None:
        terminal = io.StringIO()
        footer = Footer(terminal)
        out = Above(terminal, footer)
        footer.draw(lambda: ["view"])
        out.write("your name? ")
        footer.draw(lambda: ["view"])
        assert screen(terminal.getvalue()) == ["your name? "]
        out.write("Ada\n")
        footer.draw(lambda: ["view"])
        assert screen(terminal.getvalue()) == ["your name? Ada", "view", ""]


def test_the_view_fits_any_terminal() -> None:
    job = JobProgress("a job with a rather long name", "ab" * 16)
    job.add(StatusChanged(1, "RUNNING", "running"))
    for step in range(5):
        job.add(StepReport("job", step, 1000 * step, 10**6, 0.1, 10, 10, 123_456, None, 1, False, {}, {}))
    job.add(CheckpointChanged(1, 7, "aligned checkpoint", "completed", 1, 100, 1000, 2000))
    for width in (30, 40, 80, 200):
        lines = rendered([job], Console(file=io.StringIO(), width=width, height=30))
        assert all(len(line) <= width for line in lines), width
        told = " ".join(lines)
        assert "records 1,000,000" in told
        assert "state 123.5 kB" in told


def test_the_directory_of_cancel_may_be_left_out() -> None:
    assert with_directory(["-s", "dir", "job"]) == ["job", "--with-savepoint=dir"]
    assert with_directory(["job", "-s", "dir"]) == ["job", "--with-savepoint=dir"]
    assert with_directory(["-s", "job"]) == ["--with-savepoint=", "job"]
    assert with_directory(["job", "-s"]) == ["job", "--with-savepoint="]
    assert with_directory(["-s", "job", "-m", "127.0.0.1:8081"]) == ["--with-savepoint=", "job", "-m", "127.0.0.1:8081"]
    assert with_directory(["job"]) == ["job"]
