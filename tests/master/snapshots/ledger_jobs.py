"""Jobs of :mod:`tests.master.snapshots.local_jobs` whose output goes to a system outside, in transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from beadline.connectors.transactions import TransactionalSink
from tests.connectors.transactions.ledger import Ledger, as_text
from tests.master.snapshots import local_jobs


def into_ledger(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """From now on jobs below a folder write transactions; gives where those go."""
    out = folder / "out"
    (out / ".pending").mkdir(parents=True)
    patch.setattr(local_jobs, "file_sink", lambda out, policy: TransactionalSink(Ledger(str(out)), as_text, "test"))
    return out
