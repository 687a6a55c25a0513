"""Requests that nobody thought of: made from the description of the interface, valid ones and others."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.web.drivers import TOKEN, Driver

pytestmark = pytest.mark.slow

schemathesis = pytest.importorskip("schemathesis")

_EXAMPLES = 4
# Half of the requests are about this job and its operators; these would end it, and the others find nothing to ask.
_ENDS_JOB = {("PATCH", "/jobs/{jobid}"), ("POST", "/jobs/{jobid}/stop")}


@pytest.mark.filterwarnings("ignore")
def test_no_request_is_answered_with_a_server_error(driver: Driver, tmp_path: Path) -> None:
    from schemathesis import GenerationMode

    job = driver.start(
        **{"execution.checkpointing.interval": "1 s", "execution.checkpointing.savepoint-dir": str(tmp_path)}
    )
    path = f"/jobs/{job.get_job_id()}"
    id = str(job.get_job_id())
    ids = {"jobid": id, "job_id": id, "vertexid": driver.get(path)["vertices"][0]["id"], "index": 0, "attempt": 0}
    schema = schemathesis.openapi.from_url(f"{driver.url}/openapi.json")
    statuses: collections.Counter[int] = collections.Counter()

    def fuzz(operation: Any, mode: Any, known: bool) -> None:
        @settings(
            max_examples=_EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            if known and case.path_parameters:
                case.path_parameters.update({key: ids[key] for key in case.path_parameters if key in ids})
            answer = case.call(headers={"X-Beadline-Token": TOKEN}, timeout=20)
            statuses[answer.status_code] += 1
            assert answer.status_code < 500 or answer.status_code == 503, (case.as_curl_command(), answer.text)
            if answer.status_code >= 400:
                assert list(answer.json()) == ["errors"]

        ask()

    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events"):
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            known = (operation.method.upper(), operation.path) not in _ENDS_JOB
            for about_this_job in {False, known}:
                try:
                    fuzz(operation, mode, about_this_job)
                except Exception as error:
                    if type(error).__name__ not in ("Unsatisfiable", "InvalidArgument"):  # nothing there to get wrong
                        raise
    assert statuses[200] > 50, statuses
    assert statuses[400] + statuses[404] > 25, statuses
