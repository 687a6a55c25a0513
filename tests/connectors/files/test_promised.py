"""What a savepoint names because it is ready: later drivers of the job leave it alone, whatever they go on from."""

from __future__ import annotations

import pytest

from beadline.connectors.files import RowFileSink
from beadline.connectors.files.place import publish
from beadline.connectors.sink import Former
from tests.connectors.files.conftest import Shelf
from tests.connectors.files.test_files import (
    bucket,
    encode,
    needs,
    precommit,
    publish_all,
    publish_ready,
    seal,
    stage,
    through_metadata,
)

RUN = "0123456789abcdef"


@pytest.mark.parametrize("ends", [True, False], ids=["finishes", "goes on"])
def test_a_later_driver_gives_up_what_nobody_was_promised(shelf: Shelf, ends: bool) -> None:
    first, second = (RowFileSink(shelf.base, encode, bucket, suffix=".txt") for _ in range(2))
    first.prepare(RUN, 1)
    before = first.committer()
    start = before.snapshot()
    (promised,) = precommit(before, seal(before, stage(first, [1]), 0, True))
    (forgotten,) = precommit(before, seal(before, stage(first, [3]), 1, True))
    saved = through_metadata(before.portable_committables([promised]))
    assert len(shelf.ready()) == 2

    second.prepare(RUN, 2, former=[Former(RUN, "", 1, True)])
    after = second.committer()
    after.restore(through_metadata(start), [needs(start)])
    after.tidy([needs(start)], idle=True)
    assert len(shelf.ready()) == 1
    publish_all(after, seal(after, stage(second, [5]), 2, True))
    if ends:
        after.close(discard=True)  # it has finished, and its id may come again
        assert len(shelf.ready()) == 1

    publish_ready(after, saved)
    publish(forgotten)
    assert sorted(shelf.visible().values()) == ["1\n", "5\n"]
    after.close(discard=True)
    assert (shelf.staged(), shelf.ready()) == ([], []), "a promise that was kept leaves nothing"


def test_a_later_driver_forgets_promises_that_were_kept(shelf: Shelf) -> None:
    """The first one has published what its savepoint names, and dies. The job goes on, and never ends."""
    first, second = (RowFileSink(shelf.base, encode, bucket, suffix=".txt") for _ in range(2))
    first.prepare(RUN, 1)
    before = first.committer()
    kept, owed = (precommit(before, seal(before, stage(first, [n]), n, True)) for n in (1, 3))
    for committables in (kept, owed):
        before.portable_committables(committables)
    publish_ready(before, kept)
    assert len(shelf.staged()) == 2
    second.prepare(RUN, 2, former=[Former(RUN, "", 1, True)])
    after = second.committer()
    start = before.snapshot()
    after.restore(through_metadata(start), [needs(start)])
    after.tidy([needs(start)], idle=True)
    assert len(shelf.staged()) == 1
    publish_ready(after, owed)
    assert sorted(shelf.visible().values()) == ["1\n", "3\n"]
