"""State is what was written, whatever is merged when, through changes of parallelism and restores."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.state.backend_settings import HEAP, ROCKSDB
from beadline.state.segments import version as versions
from tests.master.soon import merge_soon
from tests.master.upkeep.histories import LARGEST, History
from tests.state.contract.subject import let_go

NIGHTLY = bool(os.environ.get("BEADLINE_NIGHTLY"))
HISTORIES = int(os.environ.get("BEADLINE_HISTORIES", "20000" if NIGHTLY else "60"))

pytestmark = pytest.mark.timeout(4 * 3600 if NIGHTLY else 600)

_OFTEN = ["steps", "merge", "merge", "take"]
_SELDOM = ["checkpoint", "move_in", "collect_garbage", "restart", "restart", "go_back", "look"]
event = st.tuples(st.sampled_from([*_OFTEN * 3, *_SELDOM]), st.integers(0, 1 << 16))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    merge_soon(monkeypatch)
    monkeypatch.setattr(versions, "PIECE_ENTRIES", versions.PIECE_ENTRIES)  # histories set it, and it is set back


seen: Counter[str] = Counter()


@pytest.mark.parametrize(("kind", "share"), [(HEAP, 0.9), (ROCKSDB, 0.1)])
def test_state_is_what_was_written(kind: str, share: float, small: None) -> None:
    seen.clear()

    @settings(
        max_examples=max(1, round(HISTORIES * share)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(st.integers(1, LARGEST), st.lists(event, min_size=15, max_size=40))
    def live(parallelism: int, events: list[tuple[str, int]]) -> None:
        lived(kind, parallelism, events)

    live()
    print(dict(seen))
    assert seen["merges"] > HISTORIES * share / 4, "there are about two in a history: nothing was tested"


def lived(kind: str, parallelism: int, events: list[tuple[str, int]]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="beadline-history-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    history = History(folder, kind, parallelism)
    try:
        for name, seed in events:
            getattr(history, name)(random.Random(seed))
            history.check()
        history.look(random.Random(0))
        seen["histories"] += 1
        seen["merges"] += history.merges
    finally:
        history.close()
        let_go(folder)


@pytest.mark.parametrize("seed", [17, 75, 131, 199, 232])
def test_histories_that_once_went_wrong(seed: int, small: None) -> None:
    """Spans shared a segment, and a merge was taken into a chain that was not the one that had been merged."""
    dice = random.Random(seed)
    events = [(dice.choice([*_OFTEN * 3, *_SELDOM]), dice.randrange(1 << 16)) for _ in range(40)]
    lived(HEAP, dice.randint(1, LARGEST), events)
