"""The state of a running job over REST."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from beadline.master.job import JobMaster
from beadline.state_processor.catalog import Catalog
from beadline.state_processor.local.tables import tables_of
from beadline.web.state import router
from beadline.web.view import from_text
from tests.state_processor.everything import KEYS, ROUNDS, running

pytestmark = pytest.mark.usefixtures("local_engine")


class Asking:
    """Asks about the state of one job."""

    def __init__(self, master: JobMaster) -> None:
        self._app = FastAPI()
        self._app.include_router(router({master.job_id: master}.get))
        self._job = master.job_id

    def get(self, path: str = "", status: int = 200, job: str | None = None, **query: Any) -> Any:
        return self._ask("GET", path, status, job, params=query)

    def post(self, status: int = 200, **body: Any) -> Any:
        return self._ask("POST", "/view", status, json=body)

    def _ask(self, method: str, path: str, status: int | None, job: str | None = None, **more: Any) -> Any:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.request(method, f"/jobs/{job or self._job}/beadline/state{path}", **more)

        response = asyncio.run(ask())
        assert response.status_code == status or (status is None and response.status_code in (200, 400)), response.text
        return response.json()


@pytest.fixture(scope="module")
def master(local_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobMaster]:
    folder = str(tmp_path_factory.mktemp("job"))
    with running(2, execution_checkpointing_dir=folder, execution_checkpointing_data__inline__threshold="0") as master:
        yield master


@pytest.fixture
def asking(master: JobMaster) -> Asking:
    return Asking(master)


def test_operators_states_and_spread(asking: Asking, master: JobMaster) -> None:
    answer = asking.get()
    assert answer["job_id"] == master.job_id
    assert answer["step"] >= ROUNDS
    shop = next(operator for operator in answer["operators"] if operator["uid"] == "shop")
    assert (shop["name"], shop["keys"], shop["exact"]) == ("Shop", KEYS, True)
    assert len(shop["vertex_id"]) == 32
    (alone,) = asking.get(operator="shop", exact="false")["operators"]
    assert (alone["uid"], alone["exact"]) == ("shop", False)


def test_a_key_with_its_values_and_timers(asking: Asking) -> None:
    answer = asking.get("/key", operator="shop", key="c7")
    assert answer["found"]
    assert {state["name"]: state["entries"][0]["value"] for state in answer["states"]}["total"] == 8 * ROUNDS
    assert len(answer["timers"]) == 2
    assert not asking.get("/key", operator="shop", key="nobody")["found"]
    (state,) = asking.get("/key", operator="seen", key='["c7", 8]', state="note")["states"]
    assert state["entries"][0]["value"] == {"customer": "c7", "pieces": 8}


def test_the_largest_keys(asking: Asking) -> None:
    answer = asking.get("/largest", operator="shop", n=2)
    assert [key["key"] for key in answer["keys"]] == ["c39", "c38"]
    assert answer["complete"]


@pytest.mark.parametrize(
    ("path", "query", "status", "words"),
    [
        ("", {"operator": "nope"}, 404, "has no operator with uid 'nope'; there is 'orders'"),
        ("/key", {"operator": "shop", "key": "c1", "state": "nope"}, 404, "has no keyed state 'nope'; there is '"),
        ("/key", {"operator": "orders", "key": "c1"}, 404, "operator 'orders' in job"),
        ("/key", {"operator": "seen", "key": "c1"}, 400, "whose keys are TUPLE<STRING, INT>"),
        ("/largest", {"operator": "nope"}, 404, "has no operator with uid 'nope'"),
    ],
)
def test_a_wrong_question_is_answered_with_what_there_is(
    asking: Asking, path: str, query: dict[str, str], status: int, words: str
) -> None:
    (error,) = asking.get(path, status, **query)["errors"]
    assert words in error


@pytest.mark.parametrize("operator", ["shop", "seen", "windows"])
@pytest.mark.parametrize(
    "key",
    [
        "",
        "1e999999999",
        "-1E-999999999",
        "9" * 9000,
        "[" * 9000,
        "[" * 400 + "]" * 400,
        "nan",
        "\x00",
        "{}",
        "null",
        "\ud800",
        *[
            '{"a": [1, {}]}',
            "[[], [[]]]",
            "ff" * 4000,
            "0001-01-01",
            "24:00",
            '[null, "x"]',
            '["c1", 1e400]',
            "[1, true]",
        ],
    ],
)
def test_whatever_is_asked_for_is_answered_soon(asking: Asking, operator: str, key: str) -> None:
    try:
        key.encode()
    except UnicodeEncodeError:
        key = "%ED%A0%80"
    answer = asking._ask("GET", "/key", None, params={"operator": operator, "key": key})
    assert answer.get("errors") or answer["found"] == (answer["key"] == 0)  # -1E-999999999 is 0, which is a key


@pytest.mark.parametrize("seconds", [-1, 601, "x", None, [], 1e308])
def test_a_view_is_kept_for_a_sensible_time(asking: Asking, seconds: Any) -> None:
    asking._ask("POST", "/view", 422, json={"keep_seconds": seconds})


def test_a_view_can_be_read_with_nothing_but_its_metadata(asking: Asking) -> None:
    answer = asking.post(keep_seconds=30)
    snapshot = from_text(answer["metadata"])
    assert snapshot.step == answer["step"]
    assert snapshot.files()
    tables = {table.full_name: table for table in tables_of(Catalog("the view", snapshot))}
    assert tables["shop.total"].read().read_all().num_rows == KEYS
    assert asking.post(view=answer["view"], keep_seconds=60)["kept_until"] > answer["kept_until"]
    asking.post(view=answer["view"], keep_seconds=0)
    (error,) = asking.post(404, view=answer["view"], keep_seconds=5)["errors"]
    assert "its time is up, or it was let go of" in error


def test_views_are_limited(asking: Asking) -> None:
    views = [asking.post()["view"] for _ in range(16)]
    assert "16 views are open already" in asking.post(503, keep_seconds=1)["errors"][0]
    for view in views:
        asking.post(view=view, keep_seconds=0)
    asking.post(keep_seconds=0)


def test_a_job_that_does_not_run_here_has_its_state_in_checkpoints(asking: Asking) -> None:
    (error,) = asking.get("", 404, job="nope")["errors"]
    assert "'beadline state' reads them" in error


def test_a_master_that_is_busy_is_not_waited_for_for_ever(
    asking: Asking, master: JobMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beadline.web import state

    monkeypatch.setattr(state, "_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(master._inbox, "put", lambda event: None)
    assert "is RUNNING and has not answered for 0.05 s" in asking.get("", 503)["errors"][0]


def test_many_may_ask_at_once(asking: Asking, master: JobMaster) -> None:
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(asking.get("/key", operator="shop", key=f"c{n}")))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer["key"] for answer in answers) == sorted(f"c{n}" for n in range(8))
    assert all(answer["found"] for answer in answers)
    assert master.running is not None
    assert master.running.views.files() == frozenset(), "answers let go of their files"
