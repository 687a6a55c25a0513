"""``beadline playground``: sets the stage, lets the story play, and gives the verdict."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beadline.master import engines

if TYPE_CHECKING:
    from rich.console import Console

    from beadline.cli.playground.story import Stage


def playground(
    kafka: Annotated[
        bool, typer.Option("--kafka", help="From Kafka to Kafka, on a broker that is started for it.")
    ] = False,
    stay: Annotated[bool, typer.Option("--stay", help="Let the job run on at the end, until Ctrl-C.")] = False,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the dashboard, if there is a screen to open it on.")
    ] = True,
    engine: Annotated[
        str,
        typer.Option("--engine", metavar="ENGINE", help="What runs the job: spark, or local, which needs no Java."),
    ] = "spark",
    upgrade: Annotated[
        bool, typer.Option("--upgrade/--no-upgrade", help="Stop, rescale and upgrade the job after the failures.")
    ] = True,
    windows: Annotated[
        int, typer.Option("--windows", metavar="N", min=1, help="How many windows to count between two events.")
    ] = 4,
) -> None:
    """Watch a job that is killed, stopped, rescaled and upgraded, and counts each click exactly once.

    The exit code is 0 if all counts are right, 1 if not, and 130 after Ctrl-C.
    """
    if engine not in engines.ALL:
        raise typer.BadParameter(f"--engine {engine}: it must be {' or '.join(engines.ALL)}.")
    from rich.console import Console

    raise typer.Exit(play(Console(), engine, kafka, stay, upgrade, windows, open_browser and has_screen()))


def play(
    console: Console, engine: str, kafka: bool, stay: bool, upgrade: bool, windows: int, open_browser: bool
) -> int:
    """Play everything in a folder that is gone afterwards. Gives the exit code."""
    # Other commands answer at once: this one imports what it needs when it is called.
    from beadline.cli.playground.driver import remove_at_the_end
    from beadline.cli.playground.progress import Progress
    from beadline.cli.playground.story import Story
    from beadline.cli.playground.view import view_of
    from beadline.errors import BeadlineError

    progress = Progress(Story.acts(engine, upgrade))
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(_interrupted_by_sigterm())
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="beadline-playground-")))
        remove_at_the_end(folder)
        try:
            stage = cleanup.enter_context(_stage(folder, engine, kafka, windows, open_browser))
            with view_of(progress, console) as view:
                story = Story(stage, progress, view)
                cleanup.callback(story.close)
                story.run()
                if stay:
                    with contextlib.suppress(KeyboardInterrupt):
                        story.stay()
                story.stop()
        except BeadlineError as error:
            console.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
            return 1
        except KeyboardInterrupt:
            console.print("Interrupted: everything is being ended.", style="yellow")
            return 130
    right, text = progress.outcome.verdict()
    console.print(f"{'✓' if right else '✗'} {text}", style="green" if right else "red", highlight=False, soft_wrap=True)
    return 0 if right else 1


def has_screen() -> bool:
    """Whether a browser could show something here."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextlib.contextmanager
def _stage(folder: Path, engine: str, kafka: bool, windows: int, open_browser: bool) -> Iterator[Stage]:
    from beadline.cli.playground.outcome import FilesOutput, KafkaOutput
    from beadline.cli.playground.story import Stage

    if not kafka:
        output = folder / "counts"
        started = str(int(time.time() * 1000))
        arguments = ("--started", started, "--output", str(output))
        yield Stage(folder, engine, arguments, FilesOutput(output), windows, open_browser)
        return
    from beadline.cli.playground.site import ClickSite
    from beadline.services import KafkaServer

    with (
        KafkaServer() as server,
        ClickSite(server.address),
        contextlib.closing(KafkaOutput(server.address, "counts")) as results,
    ):
        yield Stage(folder, engine, ("--kafka", server.address), results, windows, open_browser)


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM is heeded as Ctrl-C is, also in the background, where that is ignored: whatever was started is ended."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
