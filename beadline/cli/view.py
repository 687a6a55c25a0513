"""The live view of jobs: a few lines at the foot of a terminal, however narrow it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from beadline.cli.output import duration, size
from beadline.cli.progress import JobProgress
from beadline.master.reporting.news import CheckpointChanged
from beadline.shown_text import printable_line

_BARS = "▁▂▃▄▅▆▇█"
_GAP = "   "
_SHOWN_ID = 8
_STATUS_STYLES = {"RUNNING": "green", "RESTARTING": "yellow", "FAILED": "red", "FAILING": "red", "CREATED": "dim"}


def rendered(jobs: Iterable[JobProgress], console: Console) -> list[str]:
    """The lines of the view, with the terminal's colours; none is wider than the terminal."""
    lines = [line for job in jobs for line in _job(job, console.width)]
    most = max(1, console.height - 2)
    with console.capture() as captured:
        for line in lines[-most:]:
            line.truncate(max(1, console.width - 1), overflow="ellipsis")
            console.print(line, no_wrap=True, overflow="crop", crop=True, highlight=False)
    return captured.get().splitlines()


def _job(job: JobProgress, width: int) -> Iterator[Text]:
    title = Text("── ", style="dim")
    title.append(printable_line(job.name), style="bold not dim")
    title.append(f" {job.job_id[:_SHOWN_ID]}… ")
    title.append(job.status, style=f"{_STATUS_STYLES.get(job.status, 'default')} not dim")
    title.append(f" {duration(job.seconds * 1000)} ")
    title.append("─" * max(0, width - 2 - cell_len(title.plain)))
    yield title
    yield from _wrapped((_pair(name, text) for name, text in job.words().items()), width)
    if len(job.steps) > 1:
        yield Text.assemble(("   steps ", "dim"), (_sparkline([step.records for step in job.steps]), "cyan"))
    for checkpoint in reversed(job.checkpoints.values()):
        yield _checkpoint(checkpoint)
    if job.last_error is not None and job.restarts:
        yield Text.assemble(("   last error ", "dim"), (printable_line(job.last_error.splitlines()[0]), "red"))


def _pair(name: str, text: str) -> Text:
    style = "bold yellow" if name in ("restarts", "steps run again") and text != "0" else "bold"
    return Text.assemble((f"{name} ", "dim"), (text, style))


def _wrapped(pairs: Iterable[Text], width: int) -> Iterator[Text]:
    """As many pairs on a line as there is room for; none is cut."""
    line = Text()
    for pair in pairs:
        if line and cell_len(line.plain) + len(_GAP) + cell_len(pair.plain) >= width:
            yield line
            line = Text()
        line.append(_GAP)
        line.append_text(pair)
    if line:
        yield line


def _checkpoint(change: CheckpointChanged) -> Text:
    what = f"   {change.type} {change.id} "
    if change.failure is not None:
        return Text.assemble((what, "dim"), (f"failed: {printable_line(change.failure.splitlines()[0])}", "red"))
    if change.phase not in ("completed", "published"):
        return Text.assemble((what, "dim"), (change.phase, "yellow"))
    full = "" if change.full_size is None else f" of {size(change.full_size)}"
    return Text.assemble(
        (what, "dim"), (f"{change.phase} in {duration(change.duration_ms)}, {size(change.size)}{full}", "")
    )


def _sparkline(values: list[int]) -> str:
    most = max(values) or 1
    return "".join(_BARS[min(len(_BARS) - 1, value * len(_BARS) // most)] for value in values)
