"""A record that fails every time: named by the restarts, and left out if the job was told to go on without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from beadline.common import Encoder, Types, WatermarkStrategy
from beadline.datastream import KeyedProcessFunction, OutputTag, RuntimeContext
from beadline.datastream.connectors.file_system import FileSink
from beadline.datastream.state import ValueStateDescriptor
from beadline.errors import ConfigurationError, JobExecutionError
from tests.datastream.jobs import environment, restarting

pytestmark = pytest.mark.usefixtures("engine")

RECORDS, KEYS, BAD = 200, 5, 77
POISON = OutputTag("beadline-poison", Types.LONG())


class CountBut77(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        if value == BAD:
            raise ValueError("not this one")
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


def patient(action: str, tries: int, restarts: int) -> Any:
    poison = {"beadline__poison__action": action, "beadline__poison__tries": tries}
    return restarting(restarts, execution__checkpointing__interval="100 ms", step_records=50, **poison)


def counted(action: str, tries: int, restarts: int) -> tuple[Any, Any]:
    env = patient(action, tries, restarts)
    counts = (
        env.from_sequence(0, RECORDS - 1)
        .key_by(lambda number: number % KEYS, key_type=Types.LONG())
        .process(CountBut77(), output_type=Types.TUPLE([Types.LONG(), Types.LONG()]))
    )
    counts.name("counting")
    return env, counts


def expected() -> Counter[Any]:
    """Every key counts to 40, that of the bad record to 39."""
    per_key = RECORDS // KEYS
    return Counter((key, n) for key in range(KEYS) for n in range(1, per_key + 1 - (key == BAD % KEYS)))


@pytest.mark.spark
def test_a_poison_record_is_skipped_after_so_many_tries(caplog: pytest.LogCaptureFixture) -> None:
    _, counts = counted("skip", tries=2, restarts=5)
    with caplog.at_level("WARNING", "beadline"), counts.execute_and_collect() as results:
        assert Counter(results) == expected()
    told = [record.getMessage() for record in caplog.records]
    failures = [text for text in told if text.startswith("attempt")]
    assert len(failures) == 2
    assert all("'counting'" in text and "record 77" in text for text in failures)
    assert any("record 77 has failed 2 times in operator 'counting': from now on it is skipped" in t for t in told)


def test_a_poison_record_goes_to_a_side_output() -> None:
    _, counts = counted("side-output", tries=1, restarts=5)
    good = counts.map(lambda pair: ("good", pair))
    bad = counts.get_side_output(POISON).map(lambda record: ("bad", record))
    with good.union(bad).execute_and_collect() as results:
        found = list(results)
    assert Counter(pair for what, pair in found if what == "good") == expected()
    assert [record for what, record in found if what == "bad"] == [BAD]


def test_of_operators_with_one_name_the_right_one_leaves_it_out() -> None:
    def half(number: int) -> float:
        return number / (number - BAD)

    numbers = patient("skip", tries=1, restarts=3).from_sequence(0, RECORDS - 1)
    with numbers.map(lambda number: number).map(half).map(lambda number: number).execute_and_collect() as results:
        assert Counter(results) == Counter(half(number) for number in range(RECORDS) if number != BAD)


def encoded_but_77(number: str) -> bytes:
    if number == str(BAD):
        raise ValueError("not this one")
    return f"{number}\n".encode()


@pytest.mark.spark
def test_a_sink_leaves_out_the_record_that_it_does_not_take(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And not the first one of the batch that it came in."""
    env = patient("skip", tries=1, restarts=3)
    env.from_sequence(0, RECORDS - 1).sink_to(FileSink.for_row_format(str(tmp_path), Encoder(encoded_but_77)).build())
    with caplog.at_level("WARNING", "beadline"):
        env.execute()
    rows = [int(row) for part in tmp_path.glob("*/part-*") for row in part.read_text().split()]
    assert Counter(rows) == Counter(number for number in range(RECORDS) if number != BAD)
    assert "record 77 has failed 1 times" in caplog.text


class Words(DataSourceStreamReader):
    """Numbers, one of them in words."""

    bounded = True

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"at": min(RECORDS, start["at"] + limit.max_rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: Any) -> Iterator[tuple[Any]]:
        return (("seventy-seven" if number == BAD else number,) for number in range(*partition.value))


@pytest.mark.parametrize("action", ["skip", "side-output"])
def test_a_record_that_does_not_fit_the_type_of_its_source(action: str) -> None:
    env = patient(action, tries=2, restarts=3)
    words = env.from_source(Words(), WatermarkStrategy.no_watermarks(), "words", Types.TUPLE([Types.LONG()]))
    bad = words.get_side_output(OutputTag("beadline-poison", Types.PICKLED_BYTE_ARRAY()))
    with words.map(lambda row: row[0]).union(bad.map(lambda row: row[0])).execute_and_collect() as results:
        found = Counter(results)
    assert found.pop("seventy-seven", 0) == (action == "side-output")
    assert found == Counter(number for number in range(RECORDS) if number != BAD)


def test_by_default_a_poison_record_ends_the_job() -> None:
    _, counts = counted("fail", tries=1, restarts=2)
    with pytest.raises(JobExecutionError, match=r"'counting'.*record 77.*not this one") as caught:
        list(counts.execute_and_collect())
    assert "not restarted" in "".join(caught.value.__notes__)


@pytest.mark.parametrize(("action", "tries", "complaint"), [("drop", "1", "drop"), ("skip", "0", "at least 1")])
def test_wrong_settings_are_refused(action: str, tries: str, complaint: str) -> None:
    env = environment(1, beadline__poison__action=action, beadline__poison__tries=tries)
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=complaint):
        env.execute()
