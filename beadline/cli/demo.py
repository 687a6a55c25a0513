"""The demonstration and how it is shown: live on a terminal, line by line elsewhere.

It runs the necklace factory on a local Spark, kills the workers while it runs, and compares the counts with the formula
that they must follow.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark import SparkContext
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from beadline.cli.necklaces import END_OF_TIME, Ledger, Order, closed_form, count_beads
from beadline.errors import BeadlineError
from beadline.master.reporting.news import News, StepReport
from beadline.master.spark.session import find_session

_COLUMNS = ("step", "records", "read", "records/s", "keys", "state", "watermark", "tries")
_SHOWN_STEPS = 10
_NARROWEST = 90
_KILL_AT = 0.7


@dataclass
class Progress:
    """What is known of the job so far."""

    order: Order
    steps: list[StepReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doing: str = "starting Spark…"
    spinner: Spinner = field(default_factory=lambda: Spinner("dots"))
    _started: float = 0.0
    _ended: float = 0.0

    def add(self, report: StepReport) -> None:
        self._ended = time.monotonic()
        if not self.steps:
            self._started = self._ended - report.seconds
        self.steps.append(report)
        self.doing = f"step {report.step + 1}…"

    @property
    def read(self) -> int:
        return self.steps[-1].total_records if self.steps else 0

    @property
    def average(self) -> float:
        """Records per second since the first step began, with all that lies between the steps."""
        return self.read / max(self._ended - self._started, 1e-3)

    @property
    def reruns(self) -> int:
        return sum(report.tries - 1 for report in self.steps)

    @property
    def ended(self) -> bool:
        return bool(self.steps) and self.steps[-1].final

    def cells(self, report: StepReport) -> tuple[str, ...]:
        """One step, in the order of the columns."""
        return (
            str(report.step),
            f"{report.records:,}",
            f"{report.total_records / self.order.beads:.0%}",
            f"{report.records / max(report.seconds, 1e-3):,.0f}",
            f"{report.keys:,}",
            f"{report.state_bytes / 1e6:,.1f} MB",
            factory_time(report.watermark),
            str(report.tries),
        )

    def line(self) -> str:
        """The last step in a line of text, for logs."""
        step, records, read, now, keys, size, watermark, tries = self.cells(self.steps[-1])
        return (
            f"step {step}: {records} records, {read} read, {now} records/s now, {self.average:,.0f} on average, "
            f"{keys} keys, {size} of state, watermark {watermark}, tries {tries}"
        )

    def __rich__(self) -> RenderableType:
        bar = Table.grid(padding=(0, 2), expand=True)
        bar.add_column(ratio=1)
        bar.add_column(justify="right")
        numbers = (
            f"[b]{self.read:,}[/b] of {self.order.beads:,} beads · [b]{self.average:,.0f}[/b] records/s on average"
        )
        bar.add_row(ProgressBar(self.order.beads, self.read), numbers)

        table = Table(box=None, expand=True, header_style="dim", padding=(0, 1))
        for title in _COLUMNS:
            table.add_column(title, justify="right")
        for report in self.steps[-_SHOWN_STEPS:]:
            table.add_row(*self.cells(report), style="bold yellow" if report.tries > 1 else None)
        for _ in range(_SHOWN_STEPS - len(self.steps)):
            table.add_row("")

        self.spinner.update(text=self.doing)
        status: RenderableType = Text("✓ all strings are closed", style="green") if self.ended else self.spinner
        notes = [Text(f"⚡ {note}", style="yellow") for note in self.notes[-3:]]
        title = f"[b]Beadline[/b] · a necklace factory with {self.order.strings:,} open strings"
        return Panel(Group(bar, "", table, "", *notes, status), title=title, title_align="left", padding=(1, 2))


def factory_time(watermark: int | None) -> str:
    """Event time since the factory opened."""
    if watermark is None or watermark < 0:
        return "–"
    if watermark == END_OF_TIME:
        return "end"
    minutes, milliseconds = divmod(watermark, 60_000)
    return f"{minutes}:{milliseconds / 1000:06.3f}"


def verdict(order: Order, ledger: Ledger, reruns: int) -> tuple[bool, str]:
    """Whether the ledger is what the formula says, and a line that says so."""
    expected = closed_form(order)
    wrong = {c: (ledger.get(c), expected.get(c)) for c in {*ledger, *expected} if ledger.get(c) != expected.get(c)}
    if wrong:
        return False, f"The counts differ from the closed form. By colour, (counted, expected): {wrong}"
    again = f", although {reruns} step{'s were' if reruns > 1 else ' was'} run again" if reruns else ""
    strings = order.shifts * order.strings
    return True, f"{order.beads:,} beads on {strings:,} strings, equal to the closed form{again}."


class _Notes(logging.Handler):
    """Shows Beadline's warnings inside the view, not across it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage().partition(": ")[0])


def _kill_in_next_step(context: SparkContext, pids: set[int], say: Callable[[str], None]) -> None:
    """Kill workers while they work: an idle one would be replaced without anybody noticing."""
    tracker = context.statusTracker()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage is not None and stage.numActiveTasks for stage in stages):
            break
        time.sleep(0.02)
    time.sleep(0.2)  # a task is with Spark for a moment before its worker has it
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    say(f"kill -9 {' '.join(map(str, sorted(pids)))}: the workers are gone, and their working copies of the state too")


def run_demo(shifts: int, kill: bool, console: Console | None = None) -> int:
    """Run the demonstration. Gives the exit code: 0 if the counts are right."""
    console = console or Console()
    progress = Progress(Order(shifts))
    live = console.is_terminal and console.width >= _NARROWEST

    def say(text: str) -> None:
        if live:
            progress.notes.append(text)
        else:
            console.print(text, highlight=False, markup=False, soft_wrap=True)

    def watch(report: News) -> None:
        if not isinstance(report, StepReport):
            return
        before = progress.read
        progress.add(report)
        if not live:
            say(progress.line())
        if kill and before < _KILL_AT * progress.order.beads <= progress.read and not report.final:
            victims = set(report.workers.values())
            threading.Thread(target=_kill_in_next_step, args=(context, victims, say), daemon=True).start()

    notes = _Notes(say)
    logging.getLogger("beadline").addHandler(notes)
    try:
        with Live(progress, console=console, refresh_per_second=10) if live else contextlib.nullcontext():
            if not live:
                say(progress.doing)
            context = find_session().sparkContext
            # Process ids of workers on other machines mean other processes here.
            kill = kill and str(context.master).startswith("local")
            # Spark's stack traces of the killed workers would bury the view.
            context.setLogLevel("OFF")
            progress.doing = "step 1…"
            ledger = count_beads(progress.order, watch)
    except BeadlineError as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        logging.getLogger("beadline").removeHandler(notes)
    right, text = verdict(progress.order, ledger, progress.reruns)
    console.print(f"{'✓' if right else '✗'} {text}", style="green" if right else "red", highlight=False, soft_wrap=True)
    return 0 if right else 1


if __name__ == "__main__":
    from beadline.cli.main import app

    app(["demo", *sys.argv[1:]], prog_name="python -m beadline.cli.demo")
