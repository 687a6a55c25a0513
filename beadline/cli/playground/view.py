"""How the playground is shown: one live page on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from beadline.cli.playground.clicks import PAGES, PER_WINDOW
from beadline.cli.playground.progress import Act, Progress

_SHOWN_WINDOWS = 6
_SHOWN_NOTES = 5
_NARROWEST = 90


class View(Protocol):
    """What the story talks to."""

    def begin(self, act: Act) -> None: ...

    def end(self, act: Act) -> None: ...

    def note(self, text: str) -> None: ...

    def show(self, text: str) -> None:
        """Something that is to be read in full, such as a table."""

    def dashboard(self, address: str) -> None: ...

    def refresh(self) -> None: ...


def view_of(progress: Progress, console: Console) -> contextlib.AbstractContextManager[View]:
    """A live view if there is room for one."""
    if console.is_terminal and console.width >= _NARROWEST:
        return LiveView(progress, console)
    return contextlib.nullcontext(LineView(progress, console))


class LineView:
    """For logs and pipes: a line for each thing that happens."""

    def __init__(self, progress: Progress, console: Console) -> None:
        self._progress = progress
        self._console = console
        self._told = 0

    def begin(self, act: Act) -> None:
        self._say(f"== {act.title}")

    def end(self, act: Act) -> None:
        self._say(f"   {act.result} ({act.took:.1f} s)")

    def note(self, text: str) -> None:
        self._say(f"   {text}")

    def show(self, text: str) -> None:
        self._say(text)

    def dashboard(self, address: str) -> None:
        self._say(f"   dashboard: {address}")

    def refresh(self) -> None:
        complete = self._progress.outcome.complete
        if complete > self._told:
            newest = range(self._told, complete)
            which = f"window {newest[0]}" if len(newest) == 1 else f"windows {newest[0]} to {newest[-1]}"
            found = {clicks for number in newest for clicks in self._progress.outcome.counts[number].values()}
            self._say(f"   {which}: {' and '.join(map(str, sorted(found)))} clicks on each page")
            self._told = complete

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class LiveView:
    """For terminals. The page keeps its height, so that nothing jumps."""

    def __init__(self, progress: Progress, console: Console) -> None:
        self._progress = progress
        self._console = console
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(self, console=console, refresh_per_second=8, get_renderable=lambda: self)

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def begin(self, act: Act) -> None:
        self._live.refresh()

    def end(self, act: Act) -> None:
        self._live.refresh()

    def note(self, text: str) -> None:
        """The page shows the newest ones by itself."""

    def show(self, text: str) -> None:
        self._live.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def dashboard(self, address: str) -> None:
        """The page has a line for it."""

    def refresh(self) -> None:
        """The page is drawn again several times per second anyway."""

    def __rich__(self) -> RenderableType:
        progress = self._progress
        notes = [Text(f"⚡ {note}", style="yellow", no_wrap=True) for note in progress.notes[-_SHOWN_NOTES:]]
        notes += [Text("")] * (_SHOWN_NOTES - len(notes))
        body = Group(self._acts(), "", self._windows(), "", *notes, "", self._status())
        title = f"[b]Beadline playground[/b] · every count must be exactly {PER_WINDOW:,}"
        return Panel(body, title=title, title_align="left", padding=(1, 2))

    def _acts(self) -> Table:
        table = Table.grid(padding=(0, 1))
        table.add_column(width=2)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, style="dim")
        for act in self._progress.acts:
            if act.took is not None:
                table.add_row("[green]✓[/green]", act.title, f"{act.result} ({act.took:.1f} s)")
            elif act.running:
                table.add_row(self._spinner, f"[bold]{act.title}[/bold]", "")
            else:
                table.add_row("", f"[dim]{act.title}[/dim]", "")
        return table

    def _windows(self) -> Table:
        table = Table(box=None, expand=True, header_style="dim", padding=(0, 1))
        table.add_column("window", justify="right")
        for page in PAGES:
            table.add_column(page, justify="right")
        counts = self._progress.outcome.counts
        shown = sorted(counts)[-_SHOWN_WINDOWS:]
        for number in shown:
            table.add_row(str(number), *(_cell(counts[number].get(page)) for page in PAGES))
        for _ in range(_SHOWN_WINDOWS - len(shown)):
            table.add_row("")
        return table

    def _status(self) -> RenderableType:
        progress = self._progress
        parts = [
            f"driver {progress.driver}",
            f"{progress.steps:,} steps",
            f"{progress.rate:,.0f} clicks/s",
            f"{progress.checkpoints} checkpoints",
            f"{progress.reruns} steps run again",
        ]
        lines = [Text(" · ".join(parts), style="dim", no_wrap=True)]
        lines.append(Text(f"dashboard {progress.dashboard}" if progress.dashboard else "", style="cyan", no_wrap=True))
        return Group(*lines)


def _cell(count: int | None) -> Text:
    if count is None:
        return Text("…", style="dim")
    return Text(f"{count:,}", style="green" if count == PER_WINDOW else "bold red")
