"""A job whose id the user chose, from its start to its end and once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from beadline.common import Configuration, JobClient
from beadline.errors import JobFinishedError

from .jobs import environment

pytestmark = pytest.mark.usefixtures("local_engine")


def started(folder: Path, **options: str) -> JobClient:
    env = environment(step_records=50)
    settings = {"beadline.job-id": "orders-eu", "execution.checkpointing.dir": str(folder), **options}
    env.configure(Configuration.from_dict(settings))
    env.enable_checkpointing(100)
    env.from_sequence(1, 100).print()
    return env.execute_async("orders")


def test_a_chosen_id_names_the_job_and_its_folder(tmp_path: Path) -> None:
    for epoch in (1, 2):
        client = started(tmp_path)
        assert str(client.get_job_id()) == "orders-eu"
        result = client.get_job_execution_result().result()
        assert str(result.get_job_id()) == "orders-eu"
        left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
        assert left == [f"orders-eu/{name}" for name in ("ended", f"fence-{epoch}", f"lease-{epoch}")]
    with pytest.raises(JobFinishedError, match=r"job 'orders' \(orders-eu\) finished at 20"):
        started(tmp_path, **{"execution.state-recovery.path": "latest"})
