"""Systems outside that do not answer: who has to wait for them, and who hears of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from beadline.checkpoint.ends import End
from beadline.errors import JobExecutionError
from beadline.master.snapshots import waiting
from beadline.master.snapshots.outputs import Turns
from tests.connectors.transactions.ledger import Ledger, visible
from tests.master.snapshots.ledger_jobs import into_ledger
from tests.master.snapshots.local_jobs import LocalJob, rows
from tests.master.snapshots.troubles import Gate, until


@pytest.mark.parametrize("verb", ["commit", "write"])
def test_a_restart_that_waits_for_a_system_outside_says_so(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    out, gate = into_ledger(tmp_path, monkeypatch), Gate()
    monkeypatch.setattr(waiting, "_FIRST_SECONDS", 0.05)
    job = LocalJob(tmp_path)
    job.step()
    monkeypatch.setattr(Ledger, verb, gate.after(getattr(Ledger, verb)))
    job.trigger()
    gate.reached()
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()

    def said() -> list[str]:
        return [text for text in caplog.messages if "the job has waited for" in text]

    until(lambda: len(said()) == 2, "the warning, twice")
    what, doing = (
        ("publish checkpoint 1", "publish")
        if verb == "commit"
        else (
            "make ready the output of checkpoint 1",
            "prepare",
        )
    )
    assert f"failed: {what}, in it: {doing} the output of 'sink'. If a system outside does not answer" in said()[0]
    gate.open()
    job.sealed()
    assert job.finish() is End.FINISHED
    assert sorted(visible(out)) == rows(6)


def test_no_sink_waits_for_the_system_of_another_one() -> None:
    turns, held, done = Turns(), threading.Event(), threading.Event()

    def slow() -> None:
        with turns.taken("kafka", recovering=False):
            held.set()
            assert done.wait(20)

    thread = threading.Thread(target=slow)
    thread.start()
    assert held.wait(20)
    with turns.taken("log", recovering=False):
        assert not done.is_set()
    done.set()
    thread.join()


def test_what_waits_for_its_turn_does_not_overtake_what_failed() -> None:
    """It has its turn at the very moment at which the other one gives up."""
    turns, found = Turns(), []

    def newer() -> None:
        try:
            with turns.taken("kafka", recovering=False):
                found.append("visible")
        except JobExecutionError as error:
            found.append(str(error))

    thread = threading.Thread(target=newer)

    def older() -> None:
        with turns.taken("kafka", recovering=False):
            thread.start()
            raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        older()
    thread.join()
    assert found == ["earlier output could not be published, and this must not overtake it"]
    turns.begin_again()
    with pytest.raises(OSError, match="no answer"), turns.taken("kafka", recovering=False, beside=True):
        raise OSError("no answer")
    newer()
    assert found[1:] == ["visible"], "what a savepoint could not publish is published in its turn"
