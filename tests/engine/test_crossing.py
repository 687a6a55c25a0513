"""Any changes of parallelism, through savepoints of both formats, at any time: state, times to live, timers and
operator state stay what dictionaries say they are."""

from __future__ import annotations

import copy
import os
import random
import shutil
import tempfile
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.common import Configuration
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.testing import Harness
from tests.engine.crossing import KEYS, STATES, Expected, by_key, program
from tests.nightly import NIGHTLY

HISTORIES = int(os.environ.get("BEADLINE_HISTORIES", "2000" if NIGHTLY else "20"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * 3600 if NIGHTLY else 900)]

_OFTEN = ["states", "states", "states", "timers", "event_time", "clock", "hold", "rules", "look"]
_SELDOM = ["snapshot", "rescale", "rescale", "go_back", "lose_worker"]
event = st.tuples(st.sampled_from([*_OFTEN * 2, *_SELDOM]), st.integers(0, 1 << 32))

MAX_PARALLELISM = 12


class Job(Harness):
    """Savepoints in both formats, as files."""

    def save(self, folder: str, canonical: bool) -> str:
        if not canonical:
            return self._job.savepoint(folder)
        self._job._rounds.call()
        taken = self._job._master.trigger(CheckpointKind.SAVEPOINT, folder, format=SavepointFormatType.CANONICAL)
        return taken.result()

    def go_on_from(self, savepoint: str) -> None:
        self._now = read_snapshot(savepoint).timestamp
        before, self._job = self._job, self._make_job(self._job.plan, savepoint, self._now)
        before.close()


class History:
    """One job, changed by what its methods are named after, and what it should be."""

    def __init__(self, backend: str, parallelism: int) -> None:
        self._configuration = Configuration.from_dict({"state.backend.type": backend})
        self._generation = 0
        self.parallelism = parallelism
        self.expected = Expected()
        self.harness = self._started(parallelism)
        self._folder = tempfile.mkdtemp(prefix="beadline-crossing-")
        self._snapshots: list[tuple[str, int, Expected]] = []

    def _started(self, parallelism: int) -> Job:
        self._generation += 1
        return Job(
            program(self._generation),
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            configuration=self._configuration,
        )

    def close(self) -> None:
        self.harness.close()
        shutil.rmtree(self._folder)

    def _compare(self, found: list[Any], expected: list[Any]) -> None:
        assert by_key(found) == by_key(expected)

    # -- what comes in

    def states(self, dice: random.Random) -> None:
        commands: list[Any] = []
        expected = []
        for _ in range(dice.randint(1, 12)):
            key, (kind, life), value = dice.randrange(KEYS), dice.choice(STATES), dice.randrange(100)
            command = dice.choice(["put", "put", "put", "read", "read", "clear"])
            given = [value] if command == "put" else []
            # In one step each key has one command: between subtasks of the first operator there is no order.
            if key in {each[0] for each in commands}:
                continue
            commands.append((key, command, kind, life, *given))
            answer = getattr(self.expected, command)(key, kind, life, *given)
            expected += [("state", key, kind, life, answer)] if command == "read" else []
        self._compare(self.harness.push_all(commands), expected)

    def timers(self, dice: random.Random) -> None:
        commands: list[Any] = []
        for key in dice.sample(range(KEYS), dice.randint(1, 6)):
            domain = dice.choice(["event", "processing"])
            known = sorted(time for time, owner in self.expected.timers[domain] if owner == key)
            if known and dice.random() < 0.4:
                time = dice.choice(known)
                self.expected.timers[domain].discard((time, key))
                commands.append((key, domain, True, time))
            else:
                base = self.expected.passed if domain == "event" else self.expected.now
                time = base + dice.randint(1, 40)
                self.expected.timers[domain].add((time, key))
                commands.append((key, domain, False, time))
        self._compare(self.harness.push_all(commands), [])

    def event_time(self, dice: random.Random) -> None:
        expected = self.expected
        expected.passed += dice.randint(1, 15)
        self._compare(self.harness.advance_watermark(expected.passed), expected.fire("event", expected.passed))

    def clock(self, dice: random.Random) -> None:
        expected = self.expected
        expected.now += dice.randint(1, 6)
        fired = expected.fire("processing", expected.now)
        self._compare(self.harness.advance_processing_time(expected.now), fired)

    def hold(self, dice: random.Random) -> None:
        values = [dice.randrange(1000) for _ in range(dice.randint(1, 8))]
        self._compare(self.harness.push_all([(0, "hold", value) for value in values]), [])
        self.expected.held.update(values)
        self.expected.seen += values

    def rules(self, dice: random.Random) -> None:
        name, rules = dice.choice("abcd"), self.expected.rules
        if dice.random() < 0.2:
            self.harness.push(("drop",), input=2)
            self.expected.held = Counter({held: n for held, n in self.expected.held.items() if held % 2})
        elif name in rules and dice.random() < 0.4:
            del rules[name]
            self.harness.push(("no rule", name), input=2)
        else:
            rules[name] = dice.randrange(100)
            self.harness.push(("rule", name, rules[name]), input=2)

    # -- what is seen

    def look(self, dice: random.Random) -> None:
        """All subtasks tell their operator state, some keys see the rules, and one key's states are read."""
        rules = tuple(sorted(self.expected.rules.items()))
        told = self.harness.push(("tell",), input=2)
        assert sorted(subtask for _, subtask, *_ in told) == list(range(self.parallelism))
        assert Counter(held for _, _, own, _, _ in told for held in own) == self.expected.held
        for _, subtask, _, former, seen in told:
            assert former == tuple(sorted(self.expected.former)), f"subtask {subtask}: the union"
            assert seen == rules, f"subtask {subtask}: the rules"
        keys = dice.sample(range(KEYS), 6)
        self._compare(self.harness.push_all([(key, "rules") for key in keys]), [("rules", key, rules) for key in keys])
        for kind, life in dice.sample(STATES, 4):
            answers = [("state", key, kind, life, self.expected.read(key, kind, life)) for key in keys]
            self._compare(self.harness.push_all([(key, "read", kind, life) for key in keys]), answers)

    # -- what happens to the job

    def lose_worker(self, dice: random.Random) -> None:
        self.harness.lose_worker()

    def snapshot(self, dice: random.Random) -> None:
        self._snapshots.append((self._save(dice), self.parallelism, copy.deepcopy(self.expected)))

    def _save(self, dice: random.Random) -> str:
        return self.harness.save(self._folder, dice.random() < 0.5)

    def rescale(self, dice: random.Random) -> None:
        self._go_on(self._save(dice), self.parallelism, self.expected, dice.randint(1, 5))

    def go_back(self, dice: random.Random) -> None:
        """To any snapshot there was, at any parallelism; the clock does not go back."""
        if self._snapshots:
            snapshot, before, expected = dice.choice(self._snapshots)
            self._go_on(snapshot, before, copy.deepcopy(expected), dice.randint(1, 5))

    def _go_on(self, snapshot: str, before: int, expected: Expected, parallelism: int) -> None:
        now = self.expected.now
        self.harness.close()
        self.harness = self._started(parallelism)
        self.parallelism = parallelism
        self.harness.go_on_from(snapshot)
        expected.moved(before == parallelism)
        self.expected = expected
        if now > self.harness.processing_time:
            expected.now = now
            self._compare(self.harness.advance_processing_time(now), expected.fire("processing", now))


def lived(backend: str, parallelism: int, events: list[tuple[str, int]]) -> None:
    history = History(backend, parallelism)
    try:
        for name, seed in events:
            getattr(history, name)(random.Random(seed))
        history.look(random.Random(0))
    finally:
        history.close()


@pytest.mark.parametrize(("backend", "share"), [("hashmap", 0.8), ("rocksdb", 0.2)])
def test_what_crosses(backend: str, share: float) -> None:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")

    @settings(
        max_examples=max(1, round(HISTORIES * share)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(st.integers(1, 5), st.lists(event, min_size=15, max_size=40))
    def live(parallelism: int, events: list[tuple[str, int]]) -> None:
        lived(backend, parallelism, events)

    live()


@pytest.mark.parametrize(
    ("events", "forgets"),
    [
        ([("hold", 1), ("rescale", 2), ("look", 3)], "former"),
        ([("hold", 1), ("rescale", 2), ("look", 3)], "held"),
        ([("rules", 6), ("rescale", 2), ("look", 3)], "rules"),
        ([("timers", 1), ("timers", 2), ("rescale", 2), ("clock", 3), ("event_time", 4)] * 6, "timers"),
        ([*[("states", seed) for seed in range(8)], ("rescale", 2), ("look", 3)], "states"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_these_histories_can_fail(events: list[tuple[str, int]], forgets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the dictionaries forget something when the parallelism changes, it is missed."""
    lived("hashmap", 2, events)
    moved = Expected.moved

    def forgetful(expected: Expected, same_parallelism: bool) -> None:
        moved(expected, same_parallelism)
        held: Any = getattr(expected, forgets)
        for each in held.values() if forgets == "timers" else [held]:
            each.clear()

    monkeypatch.setattr(Expected, "moved", forgetful)
    with pytest.raises(AssertionError):
        lived("hashmap", 2, events)
