"""Whole jobs: drivers killed at each point of the two phases, servers that go away, passwords that are wrong."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from beadline.common import Row, Types, WatermarkStrategy
from beadline.connectors.postgres import Bookkeeping, Server
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.base import DeliveryGuarantee
from beadline.datastream.connectors.postgres import PostgresSink, PostgresSource
from beadline.errors import ConfigurationError, UnsupportedFeatureError
from beadline.services import PostgresServer
from tests.connectors.postgres.conftest import PASSWORD, drop
from tests.connectors.postgres.drivers import Driver
from tests.nightly import NIGHTLY
from tests.recovery.drivers import newest_checkpoint, newest_path
from tests.recovery.jobs import STEP, closed_form, differences
from tests.services import _running as running

pytestmark = pytest.mark.postgres

SQL = psycopg.Connection[Any]
RECORDS = 40 * STEP
KILLS = 20 if NIGHTLY else 3
PACE = 0.001

TWO_PHASES = (
    "before the pre-commit",
    "after the pre-commit",
    "before the commit",
    "in the middle of committing several",
    "after the commit",
)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server that knows when each transaction was committed."""
    yield from running(PostgresServer({"track_commit_timestamp": "on"}))


@pytest.fixture
def lines(sql: SQL, name: str, postgres: PostgresServer) -> Iterator[str]:
    """A table of lines, numbered as they are written."""
    sql.execute(f"CREATE TABLE {name} (id bigserial, key int, line text)")
    yield name
    drop(postgres, name)


@pytest.fixture
def driver(tmp_path: Path, postgres: PostgresServer, lines: str, request: pytest.FixtureRequest) -> Iterator[Driver]:
    made = Driver(tmp_path, getattr(request, "param", "transactions"), RECORDS, postgres.url, lines)
    yield made
    made.close()


def seen(sql: SQL, table: str) -> list[str]:
    """The lines in the order in which they became visible."""
    order = "pg_xact_commit_timestamp(xmin), id"
    return [line for (line,) in sql.execute(f"SELECT line FROM {table} ORDER BY {order}").fetchall()]


def left_open(sql: SQL) -> list[Any]:
    return sql.execute("SELECT gid FROM pg_prepared_xacts").fetchall()


@pytest.mark.slow
def test_a_driver_killed_at_each_point_of_the_two_phases(driver: Driver, sql: SQL, lines: str) -> None:
    counts = []
    for point in TWO_PHASES:
        assert driver.run(point, PACE) == -signal.SIGKILL, f"{point}: {driver.said[-3000:]}"
        assert differences(seen(sql, lines), RECORDS, whole=False) == [], point
        counts.append(len(seen(sql, lines)))
    assert driver.run() == 0, driver.said[-3000:]
    assert 0 < counts[-1] < RECORDS, f"the kills came in the middle: {counts}"
    assert differences(seen(sql, lines), RECORDS) == []
    assert left_open(sql) == []


@pytest.mark.slow
def test_a_driver_killed_at_random_moments_and_resumed_at_another_parallelism(
    tmp_path: Path, postgres: PostgresServer, sql: SQL, lines: str
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments, records, before = random.Random(seed), (20 + 10 * KILLS) * STEP, 0
    driver = Driver(tmp_path, "transactions", records, postgres.url, lines)
    for kill in range(1, KILLS + 1):
        checkpoint = newest_checkpoint(tmp_path)
        driver.start(pace=PACE, options={"parallelism.default": moments.choice("123")})
        if kill % 2:
            driver.wait_until(lambda old=checkpoint: newest_checkpoint(tmp_path) > old)
        else:
            driver.wait_until(lambda old=before: len(seen(sql, lines)) > old)
        time.sleep(moments.uniform(0, 0.5))
        driver.close()
        found = seen(sql, lines)
        assert differences(found, records, whole=False) == [], f"after kill {kill}, seed {seed}"
        assert len(found) >= before
        before = len(found)
    assert 0 < before < records, f"the kills came in the middle, seed {seed}"
    assert driver.run(options={"parallelism.default": "3"}) == 0, driver.said[-3000:]
    assert differences(seen(sql, lines), records) == [], f"seed {seed}"
    assert left_open(sql) == []


@pytest.mark.slow
@pytest.mark.parametrize("point", TWO_PHASES if NIGHTLY else ("after the pre-commit", "before the commit"))
def test_a_paused_driver_is_fenced_and_changes_nothing(
    point: str, tmp_path: Path, driver: Driver, postgres: PostgresServer, sql: SQL, lines: str
) -> None:
    """It stops inside of the two phases, and wakes up when another has done its work."""
    driver.start(pace=PACE, pauses=point)
    driver.wait_until_paused()
    other = Driver(tmp_path, "transactions", RECORDS, postgres.url, lines)
    other.start(resume=newest_path(tmp_path))
    assert other.end() == 0, other.said[-3000:]
    whole = seen(sql, lines)
    assert differences(whole, RECORDS) == []
    driver.signal(signal.SIGCONT)
    assert driver.end() == 1, driver.said[-3000:]
    assert "publishes nothing more" in driver.said
    assert seen(sql, lines) == whole
    assert left_open(sql) == []


@pytest.mark.slow
def test_transactions_that_were_rolled_back_meanwhile_are_written_again(driver: Driver, sql: SQL, lines: str) -> None:
    for point in ("before the commit", "in the middle of committing several"):
        assert driver.run(point, PACE) == -signal.SIGKILL, driver.said[-3000:]
        waiting = left_open(sql)
        assert waiting, point
        for (gid,) in waiting:
            sql.execute(f"ROLLBACK PREPARED '{gid}'")
    assert driver.run() == 0, driver.said[-3000:]
    assert "their rows are written again" in driver.said
    assert differences(seen(sql, lines), RECORDS) == []
    assert left_open(sql) == []


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["upserts"], indirect=True)
def test_a_driver_killed_around_upserts(driver: Driver, sql: SQL, lines: str) -> None:
    sql.execute(f"ALTER TABLE {lines} ADD PRIMARY KEY (key)")
    for point in ("before an upsert", "in the middle of several upserts", "after the upserts"):
        assert driver.run(point, PACE) == -signal.SIGKILL, f"{point}: {driver.said[-3000:]}"
    assert driver.run() == 0, driver.said[-3000:]
    found = dict(sql.execute(f"SELECT key, line FROM {lines}").fetchall())
    assert found == {key: expected[-1] for key, expected in closed_form(RECORDS).items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "points"),
    [
        ("at least once", ("before rows are added", "after rows were added")),
        ("jdbc", ("before statements are executed", "after statements were executed")),
    ],
    indirect=["driver"],
    ids=["added", "jdbc"],
)
def test_a_driver_killed_while_rows_are_added_loses_none(
    points: tuple[str, ...], driver: Driver, sql: SQL, lines: str
) -> None:
    for point in points:
        assert driver.run(point, PACE) == -signal.SIGKILL, f"{point}: {driver.said[-3000:]}"
    assert driver.run() == 0, driver.said[-3000:]
    assert "at-least-once" in driver.said
    wanted = {line for expected in closed_form(RECORDS).values() for line in expected}
    assert set(seen(sql, lines)) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["source"], indirect=True)
def test_a_driver_killed_while_it_reads_a_table_that_grows(driver: Driver, sql: SQL, lines: str) -> None:
    """Each row is read once, those that were committed late too."""
    sql.execute(f"CREATE TABLE {lines}_in (n bigserial PRIMARY KEY)")
    with growing(sql, f"{lines}_in") as numbers:
        for point in ("before the pre-commit", "after the commit", "in the middle of committing several"):
            assert driver.run(point) == -signal.SIGKILL, f"{point}: {driver.said[-3000:]}"
        driver.start()
        before = len(numbers)
        driver.wait_until(lambda: len(seen(sql, lines)) > before)
    driver.wait_until(lambda: len(seen(sql, lines)) >= len(numbers))
    driver.close()
    counts: Counter[int] = Counter()
    found = []
    for line in seen(sql, lines):
        key, count, number = map(int, line.split())
        counts[key] += 1
        assert count == counts[key], "in the order in which they were counted"
        found.append(number)
    assert sorted(found) == sorted(numbers)
    sql.execute(f"DROP TABLE {lines}_in")


@contextlib.contextmanager
def growing(sql: SQL, table: str) -> Iterator[list[int]]:
    """Three writers, who take their time before they commit; gives the numbers that they have committed."""
    url = f"host={sql.info.host} port={sql.info.port} user=postgres dbname=postgres"
    committed: list[int] = []
    over = threading.Event()

    def write(seed: int) -> None:
        dice = random.Random(seed)
        with psycopg.connect(url) as connection:
            while not over.is_set():
                rows = connection.execute(f"INSERT INTO {table} SELECT FROM generate_series(1, 5) RETURNING n")
                numbers = [number for (number,) in rows.fetchall()]
                time.sleep(dice.choice([0.01, 0.02, 0.8]))  # longer than a step takes
                if dice.random() < 0.2:
                    connection.rollback()
                else:
                    connection.commit()
                    committed.extend(numbers)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for writer in writers:
        writer.start()
    try:
        yield committed
    finally:
        over.set()
        for writer in writers:
            writer.join()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_server_that_goes_away_in_the_middle(
    how: str, driver: Driver, postgres: PostgresServer, sql: SQL, lines: str
) -> None:
    driver.start(pace=PACE)
    driver.wait_until(lambda: len(seen(sql, lines)) > RECORDS // 10)
    getattr(postgres, how)()
    postgres.start()
    assert driver.end() == 0, driver.said[-3000:]
    with psycopg.connect(postgres.url, autocommit=True) as fresh:
        assert differences(seen(fresh, lines), RECORDS) == []
        assert left_open(fresh) == []


# -- passwords


def places_of(folder: Path) -> list[bytes]:
    """All that a job has left in files, its log among them."""
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def url_of(postgres: PostgresServer, user: str, password: str) -> str:
    return postgres.url.replace("postgres@", f"{user}:{quote(password, safe='')}@")


def test_a_wrong_password_ends_the_job_and_appears_nowhere(
    tmp_path: Path, postgres: PostgresServer, guest: str, lines: str
) -> None:
    wrong = PASSWORD + "-not"
    driver = Driver(tmp_path, "transactions", RECORDS, url_of(postgres, guest, wrong), lines)
    assert driver.run() not in (0, -signal.SIGKILL)
    assert "password authentication failed" in driver.said
    for text in places_of(tmp_path):
        assert PASSWORD.encode() not in text
        assert quote(PASSWORD, safe="").encode() not in text


def test_a_right_password_appears_nowhere(
    tmp_path: Path, postgres: PostgresServer, guest: str, lines: str, sql: SQL
) -> None:
    """Not in checkpoints, events, plans and logs either: this one is killed, and leaves all that it has."""
    sql.execute(f"GRANT INSERT ON {lines} TO {guest}; GRANT USAGE ON SEQUENCE {lines}_id_seq TO {guest}")
    Bookkeeping().check(Server.at(postgres.url))
    sql.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON beadline_transactions TO {guest}")
    driver = Driver(tmp_path, "transactions", RECORDS, url_of(postgres, guest, PASSWORD), lines)
    assert driver.run("in the middle of committing several", PACE) == -signal.SIGKILL, driver.said[-3000:]
    found = places_of(tmp_path)
    assert any(b"_metadata" in str(path).encode() for path in tmp_path.rglob("*"))
    assert any(lines.encode() in text for text in found), "they are searched where such things are"
    for text in found:
        assert PASSWORD.encode() not in text
        assert quote(PASSWORD, safe="").encode() not in text
    assert driver.run() == 0, driver.said[-3000:]
    assert differences(seen(sql, lines), RECORDS) == []


# -- builders


def builder() -> Any:
    return PostgresSink.builder().set_url("postgresql://me@db/x").set_table("t")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.set_delivery_guarantee(DeliveryGuarantee.NONE), "AT_LEAST_ONCE"),
        (lambda b: b.set_transactional_id_prefix("no spaces please"), "letters, digits"),
        (lambda b: b.set_keys("n").set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build(), "set_keys"),
        (lambda b: PostgresSink.builder().set_table("t").build(), "set_url"),
        (lambda b: PostgresSink.builder().set_url("postgresql://db/x").build(), "set_table"),
        (lambda b: b.build()._make_sink(Types.STRING()), "set_columns"),
        (lambda b: PostgresSource.builder().set_url("postgresql://db/x").set_table("t").build(), "set_column"),
        (lambda b: PostgresSource.builder().set_start_after(True), "set_start_after"),
    ],
    ids=["none", "prefix", "keys", "url", "table", "columns", "column", "start"],
)
def test_what_cannot_be_set_up_says_what_to_do(change: Any, message: str) -> None:
    with pytest.raises((ConfigurationError, UnsupportedFeatureError), match=message):
        change(builder())


@pytest.mark.usefixtures("local_engine")
def test_a_table_that_does_not_exist_ends_the_job_at_once(postgres: PostgresServer, name: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    sink = PostgresSink.builder().set_url(postgres.url).set_table(name).set_columns("n").build()
    env.from_collection([(1,)], Types.TUPLE([Types.LONG()])).sink_to(sink)
    with pytest.raises(ConfigurationError, match=f'"{name}" does not exist'):
        env.execute()


# -- from table to table


def run_from_table_to_table(postgres: PostgresServer, sql: SQL, name: str) -> None:
    sql.execute(f"CREATE TABLE {name}_in (id bigserial PRIMARY KEY, word text)")
    sql.execute(f"INSERT INTO {name}_in (word) SELECT 'word ' || i % 10 FROM generate_series(1, 1000) AS i")
    sql.execute(f"CREATE TABLE {name}_out (word text, n bigint)")
    sql.execute(f"CREATE TABLE {name}_totals (word text PRIMARY KEY, n bigint)")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    source = PostgresSource.builder().set_url(postgres.url).set_table(f"{name}_in").set_column("id").set_bounded()
    counted = (
        env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "words")
        .map(lambda row: Row(row.word, 1), Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()]))
        .key_by(lambda row: row.word, Types.STRING())
        .reduce(lambda one, other: Row(one.word, one.n + other.n))
    )
    sink = PostgresSink.builder().set_url(postgres.url)
    counted.sink_to(sink.set_table(f"{name}_out").build())
    counted.sink_to(sink.set_table(f"{name}_totals").set_keys("word").build())
    env.execute("words")
    totals = [(f"word {digit}", 100) for digit in range(10)]
    assert sql.execute(f"SELECT word, max(n) FROM {name}_out GROUP BY 1 ORDER BY 1").fetchall() == totals
    assert sql.execute(f"SELECT count(*), count(DISTINCT (word, n)) FROM {name}_out").fetchall() == [(1000, 1000)]
    assert sql.execute(f"SELECT * FROM {name}_totals ORDER BY 1").fetchall() == totals
    assert left_open(sql) == []
    sql.execute(f"DROP TABLE {name}_in, {name}_out, {name}_totals")


@pytest.mark.usefixtures("local_engine")
def test_from_table_to_table(postgres: PostgresServer, sql: SQL, name: str) -> None:
    run_from_table_to_table(postgres, sql, name)


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_from_table_to_table_on_spark(postgres: PostgresServer, sql: SQL, name: str) -> None:
    run_from_table_to_table(postgres, sql, name)
