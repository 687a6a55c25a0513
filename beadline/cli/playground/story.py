"""What happens in the playground, act by act. Each act waits until the job shows that it is well."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from beadline.cli.playground.driver import Driver, command
from beadline.cli.playground.journal import JournalReader
from beadline.cli.playground.outcome import Output
from beadline.cli.playground.progress import Act, Progress
from beadline.cli.playground.verbs import RunningJob
from beadline.cli.playground.view import View
from beadline.common.outer_options import FILE_NAME, FOLDER_VARIABLE
from beadline.errors import BeadlineError
from beadline.services.server import free_port

PROGRAMS = Path(__file__).parent / "programs"
FIRST, SECOND = PROGRAMS / "click_count.py", PROGRAMS / "click_count_2.py"
# On a machine with far too much to do everything takes ten times as long and more, and is right nevertheless.
_PATIENCE = 900.0
_LOOK_EVERY = 0.1
# How often workers are killed until a step is hit.
_KILLS = 3
# A job that seals no step for so long waits for frozen workers.
_STUCK_SECONDS = 1.5
_LOOKS = 4


class StoryFailed(BeadlineError):
    """The job did not do what it should; the message says what was waited for, and what the driver said last."""


@dataclass(frozen=True)
class Stage:
    """Where the story plays.

    :ivar folder: for everything that it writes
    :ivar engine: ``spark`` or ``local``
    :ivar arguments: what the program is told: where clicks come from, and where results go
    :ivar windows: how many windows must come between two acts
    """

    folder: Path
    engine: str
    arguments: tuple[str, ...]
    output: Output
    windows: int = 4
    open_browser: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """What processes are started with: the options of the job are in a file of its own."""
        return {**os.environ, FOLDER_VARIABLE: str(self.folder)}

    def write_options(self) -> None:
        """One port and one token for all drivers, so that the page stays where it is when a driver dies. The token is
        not on the command line, where other users could see it."""
        options = {
            "beadline.engine": self.engine,
            "beadline.rest.token": secrets.token_urlsafe(24),
            "beadline.step.first-records": 100_000,  # what has waited is read in one step
            "execution.checkpointing.dir": str(self.folder / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(self.folder / "savepoints"),
            "rest.port": free_port(),
        }
        (self.folder / FILE_NAME).write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in options.items()))


class Story:
    """Starts, kills, stops, rescales and upgrades one job."""

    def __init__(self, stage: Stage, progress: Progress, view: View) -> None:
        stage.write_options()
        self._stage = stage
        self._progress = progress
        self._view = view
        self._drivers: list[Driver] = []
        self._journal = JournalReader(stage.folder / "journal")

    @staticmethod
    def acts(engine: str, upgrade: bool) -> list[Act]:
        """What will happen. On the local engine there are no workers: the driver does their work."""
        where = "Spark" if engine == "spark" else "the local engine"
        titles = [f"start a click count on {where}"]
        titles += ["kill -9 the workers"] if engine == "spark" else []
        titles += ["kill -9 the driver, resume"]
        if upgrade:
            titles += ["take a savepoint, then stop with one", "resume with 4 subtasks, not 2"]
            titles += ["compare an upgraded program with the state", "resume with the upgraded program"]
        return [Act(title) for title in titles]

    def run(self) -> None:
        """Play all acts. Afterwards the job runs, in its newest version."""
        acts = iter(self._progress.acts)
        self._play(next(acts), lambda: ("", self._start()))
        if self._stage.engine == "spark":
            self._play(next(acts), lambda: ("", self._kill_workers()))
        self._play(next(acts), lambda: ("", self._kill_driver()))
        if not any(act.began is None for act in self._progress.acts):
            return
        savepoint = self._play(next(acts), self._savepoint_and_stop)
        self._play(next(acts), lambda: ("", self._resume(FIRST, 4, savepoint)))
        savepoint = self._play(next(acts), self._stop_and_compare)
        self._play(next(acts), lambda: ("", self._resume(SECOND, 4, savepoint)))

    def stay(self) -> None:
        """Go on counting until somebody presses Ctrl-C."""
        while True:
            self._look()
            time.sleep(_LOOK_EVERY)

    def stop(self) -> None:
        """End the job in order: what it has counted is published."""
        self._stop()

    def close(self) -> None:
        """See that no process is left."""
        for driver in self._drivers:
            driver.close()

    # -- the acts

    def _start(self) -> str:
        self._launch(FIRST, "-p", "2")
        self._wait_for_windows(self._stage.windows)
        return f"{self._stage.windows} windows are right"

    def _kill_workers(self) -> str:
        """Kill them in the middle of a step: an idle worker would be replaced without anybody noticing.

        Workers are frozen first. A step that needs one of them then waits for it, and when they are killed, it is a
        step in progress that loses them. Spark may have other workers, and then no step is hit. What the playground
        proves are the counts, which must be right in either case.
        """
        reruns = self._progress.reruns
        hit = any(self._kill_in_a_step() for _ in range(_KILLS))
        killed_at = time.monotonic()
        steps = self._progress.steps
        self._wait(lambda: self._progress.steps > steps, "a step after the workers were killed")
        took = time.monotonic() - killed_at
        again = self._progress.reruns - reruns
        if again:
            how = "the step they were in was run again from the same state"
        elif hit:
            how = "Spark gave the tasks of the step they were in to new workers"
        else:
            how = "no step was in progress, and new workers have read the state again"
        self._note(f"{how}; the next step was sealed {took:.1f} s later")
        self._wait_for_windows(self._stage.windows)
        return f"recovered in {took:.1f} s, {again} {'step' if again == 1 else 'steps'} run again"

    def _kill_in_a_step(self) -> bool:
        """Kill the workers of the last step. Gives whether a step was waiting for them."""
        self._wait(lambda: self._progress.workers, "the next step")
        frozen = self._driver.freeze_workers(self._progress.workers)
        try:
            waits = bool(frozen) and self._no_step_ends()
        finally:
            self._driver.kill_workers(frozen)
        if frozen:
            self._note(f"kill -9 {' '.join(map(str, frozen))}: workers are gone, and their copies of the state")
        return waits

    def _no_step_ends(self) -> bool:
        """Whether, for once, no step is sealed for a while. A new step begins several times per second."""
        for _ in range(_LOOKS):
            steps = self._progress.steps
            until = time.monotonic() + _STUCK_SECONDS
            self._wait(lambda: self._progress.steps > steps or time.monotonic() > until, "a step")  # noqa: B023
            if self._progress.steps == steps:
                return True
        return False

    def _kill_driver(self) -> str:
        before = self._progress.outcome.complete
        self._note(f"kill -9 {self._driver.pid}: the driver is gone, and with it everything that was in memory")
        self._driver.kill()
        killed_at = time.monotonic()
        self._note("beadline run -s latest: another driver goes on from the last checkpoint")
        self._launch(FIRST, "-p", "2", "-s", "latest")
        self._wait_for_windows(1)
        took = time.monotonic() - killed_at
        self._note(f"the first new window came {took:.1f} s after the kill; clicks that waited are being counted")
        self._wait_for_windows(self._stage.windows)
        return f"recovered in {took:.1f} s, {self._progress.outcome.complete - before} windows since"

    def _stop(self) -> tuple[str, str]:
        """Stop the job with a savepoint, as ``beadline stop`` does. Gives its path, and what to say of it."""
        path = self._job().stop()
        self._wait_for_end()
        return path, f"{Path(path).name}, {self._progress.outcome.complete} windows are right"

    def _savepoint_and_stop(self) -> tuple[str, str]:
        taken = self._job().take_savepoint()
        self._note(f"savepoint {Path(taken).name} was taken, and the job went on")
        self._wait_for_windows(1)
        return self._stop()

    def _job(self) -> RunningJob:
        self._wait(lambda: self._driver.entry() is not None, "the job's entry in the registry")
        entry = self._driver.entry()
        assert entry is not None
        return RunningJob(entry, self._stage.environment, self._note)

    def _resume(self, program: Path, parallelism: int, snapshot: str) -> str:
        self._launch(program, "-p", str(parallelism), "-s", snapshot)
        self._wait_for_windows(self._stage.windows)
        return f"{self._progress.outcome.complete} windows are right"

    def _stop_and_compare(self) -> tuple[str, str]:
        savepoint, _ = self._stop()
        diff = command("savepoint", "diff", "-p", "4", savepoint, str(SECOND), *self._program_arguments())
        done = subprocess.run(
            diff, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=self._stage.environment
        )
        if done.returncode:
            raise StoryFailed(f"beadline savepoint diff ended with {done.returncode}:\n{done.stderr}")
        self._view.show(f"$ beadline savepoint diff {savepoint} {SECOND.name}\n{done.stdout.rstrip()}\n")
        kinds = [kind for kind in ("restored", "migrated", "new") if kind in done.stdout]
        return savepoint, f"its state is {', '.join(kinds)}"

    # -- how

    def _play(self, act: Act, play: Callable[[], tuple[str, str]]) -> str:
        """Play an act that gives a savepoint, or nothing, and what to say of it."""
        act.begin()
        self._view.begin(act)
        savepoint, result = play()
        self._look()
        act.end(result)
        self._view.end(act)
        return savepoint

    @property
    def _driver(self) -> Driver:
        return self._drivers[-1]

    def _launch(self, program: Path, *options: str) -> None:
        log = self._stage.folder / f"driver-{len(self._drivers) + 1}.log"
        starts = self._progress.starts
        driver = Driver([*options, str(program), *self._program_arguments()], log, self._stage.environment)
        self._drivers.append(driver)
        self._progress.driver = f"pid {driver.pid}"
        self._wait(lambda: self._progress.starts > starts, "the driver to start the job")
        self._show_dashboard(driver.dashboard())

    def _show_dashboard(self, address: str) -> None:
        """Tell where it is, when it is there for the first time, or has moved."""
        if address and address != self._progress.dashboard:
            self._progress.dashboard = address
            self._view.dashboard(address)
            if self._stage.open_browser and len(self._drivers) == 1:
                webbrowser.open(address)

    def _program_arguments(self) -> Sequence[str]:
        return [*self._stage.arguments, "--journal", str(self._stage.folder / "journal")]

    def _note(self, text: str) -> None:
        self._progress.notes.append(text)
        self._view.note(text)

    def _wait_for_windows(self, number: int) -> None:
        """Wait until so many more windows are published."""
        goal = self._progress.outcome.complete + number
        self._wait(lambda: self._progress.outcome.complete >= goal, f"window {goal - 1}")

    def _wait(self, condition: Callable[[], object], what: str, patience: float = _PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not condition():
            self._look()
            if condition():
                return
            if not self._driver.running:
                self._look()
                code, words = self._driver.exit_code, self._driver.last_words()
                raise StoryFailed(f"the driver ended with {code} while {what} was awaited; it said:\n{words}")
            if time.monotonic() > deadline:
                words = self._driver.last_words()
                raise StoryFailed(f"{what} did not come within {patience:.0f} s; the driver said:\n{words}")
            time.sleep(_LOOK_EVERY)

    def _wait_for_end(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while self._driver.running and time.monotonic() < deadline:
            self._look()
            time.sleep(_LOOK_EVERY)
        self._look()
        if self._driver.exit_code != 0:
            raise StoryFailed(f"the driver ended with {self._driver.exit_code}:\n{self._driver.last_words()}")

    def _look(self) -> None:
        """See what is new."""
        for event in self._journal.new():
            self._progress.heard(event)
        self._progress.outcome.add(self._stage.output.new())
        self._view.refresh()
