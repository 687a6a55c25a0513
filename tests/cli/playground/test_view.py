"""What people see of the playground."""

from __future__ import annotations

import io

from rich.console import Console

from beadline.cli.playground.clicks import PAGES
from beadline.cli.playground.progress import Act, Progress
from beadline.cli.playground.view import LineView, LiveView, view_of


def lines_of(window: int) -> list[str]:
    return [f"{window * 1000},{page},1000,{1000 * (window + 1)}" for page in PAGES]


def step(at: int, tries: int = 1) -> dict:
    return {"event": "StepReport", "at": at, "records": 600, "tries": tries, "workers": {"0": 41, "1": 42}}


class TestProgress:
    def test_it_follows_the_events_of_the_job(self):
        progress = Progress([])
        progress.heard({"event": "ExecutionStarted", "attempt": 1})
        progress.heard(step(1000))
        progress.heard(step(1100, tries=2))
        progress.heard({"event": "CheckpointChanged", "phase": "triggered", "path": None})
        progress.heard({"event": "CheckpointChanged", "phase": "completed", "path": "/cp/chk-1"})

        assert (progress.steps, progress.reruns, progress.checkpoints) == (2, 1, 1)
        assert progress.workers == [41, 42]
        assert progress.rate == 6000

    def test_a_new_driver_has_no_workers_yet(self):
        progress = Progress([])
        progress.heard(step(1000))
        progress.heard({"event": "ExecutionStarted", "attempt": 1})

        assert progress.workers == []


class TestLines:
    def test_each_thing_that_happens_is_a_line(self):
        out = io.StringIO()
        act = Act("kill -9 the driver")
        progress = Progress([act])
        console = Console(file=out, width=100)
        with view_of(progress, console) as view:
            assert isinstance(view, LineView)
            act.begin()
            view.begin(act)
            for window in range(3):
                progress.outcome.add(lines_of(window))
            view.refresh()
            view.refresh()
            progress.outcome.add(lines_of(3))
            view.refresh()
            act.end("recovered")
            act.took = 4.0
            view.end(act)

        assert out.getvalue().splitlines() == [
            "== kill -9 the driver",
            "   windows 0 to 2: 1000 clicks on each page",
            "   window 3: 1000 clicks on each page",
            "   recovered (4.0 s)",
        ]


class TestLiveView:
    def shown(self, progress: Progress) -> str:
        console = Console(file=io.StringIO(), width=110, force_terminal=True, color_system=None)
        console.print(LiveView(progress, console))
        return console.file.getvalue()

    def test_its_height_never_changes(self):
        acts = [Act("first"), Act("second")]
        progress = Progress(acts)
        heights = {len(self.shown(progress).splitlines())}
        acts[0].begin()
        for window in range(12):
            progress.outcome.add(lines_of(window))
            progress.notes.append(f"kill -9 {window}")
            heights.add(len(self.shown(progress).splitlines()))
        acts[0].end("done")
        progress.dashboard = "http://127.0.0.1:8081/"
        heights.add(len(self.shown(progress).splitlines()))

        assert len(heights) == 1

    def test_newest_windows_notes_and_results(self):
        act = Act("kill -9 the driver")
        progress = Progress([act])
        for window in range(9):
            progress.outcome.add(lines_of(window))
        progress.outcome.add(["9000,/shop,999,9999"])
        progress.notes.append("kill -9 4711")
        act.begin()
        act.end("recovered in 4.0 s")

        text = self.shown(progress)

        assert "✓" in text
        assert "recovered in 4.0 s" in text
        assert "⚡ kill -9 4711" in text
        windows = [line.split()[1:] for line in text.splitlines() if "1,000" in line or "999" in line][1:]
        assert [line[0] for line in windows] == ["4", "5", "6", "7", "8", "9"]
        assert windows[-1][1:7] == ["…", "…", "…", "…", "…", "999"]
