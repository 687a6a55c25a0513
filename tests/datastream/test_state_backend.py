"""Choosing a state backend: in code, by options, for all jobs; and one job that runs with RocksDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration, Types
from beadline.datastream import (
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    MemoryStateBackend,
    RocksDBStateBackend,
    StateBackend,
    StreamExecutionEnvironment,
)
from beadline.datastream.environment import options as job_options
from beadline.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.datastream.state_backend import PredefinedOptions
from beadline.errors import EnvironmentSetupError, UnsupportedFeatureError
from beadline.state import backend_settings

from .jobs import collect, environment


def settings_of(backend: StateBackend) -> Any:
    configuration = Configuration()
    backend.apply_to(configuration)
    return job_options.job_settings(configuration, batch=False)


def test_backends_in_code(tmp_path: Path) -> None:
    assert settings_of(HashMapStateBackend()).backend.kind == "hashmap"
    assert settings_of(MemoryStateBackend()).backend.kind == "hashmap"
    assert settings_of(MemoryStateBackend(max_state_size=1000)).checkpoints.max_state_size == 1000
    files = settings_of(FsStateBackend(tmp_path.as_uri()))
    assert files.backend.kind == "hashmap"
    assert files.checkpoints.directory == tmp_path.as_uri()
    rocks = settings_of(RocksDBStateBackend(tmp_path.as_uri(), True))
    assert rocks.backend.kind == "rocksdb"
    assert rocks.checkpoints.directory == tmp_path.as_uri()


def test_settings_of_rocksdb_in_code() -> None:
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths("/a", "file:///b")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    rocks = settings_of(backend).backend.rocks
    assert rocks.directories == ("/a", "/b")
    assert rocks.threads == 4
    with pytest.raises(UnsupportedFeatureError, match=r"com\.acme\.Tuned"):
        backend.set_options("com.acme.Tuned")


def test_code_wins_over_the_configuration_it_was_given() -> None:
    given = Configuration.from_dict({"state.backend.type": "rocksdb"})
    env = StreamExecutionEnvironment(given)
    env.set_state_backend(HashMapStateBackend())
    assert job_options.job_settings(env._configuration, False, []).backend.kind == "hashmap"


def test_what_has_no_effect_is_said() -> None:
    given = {"state.backend.type": "rocksdb", "state.backend.rocksdb.block.cache-size": "1mb"}
    (said,) = job_options.without_effect(Configuration.from_dict(given))
    assert said.endswith(": state.backend.rocksdb.block.cache-size")
    given["state.backend.rocksdb.memory.managed"] = "false"
    assert job_options.without_effect(Configuration.from_dict(given)) == []


def test_without_rocksdict_the_job_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_settings.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentSetupError, match=r"pip install 'beadline\[rocksdb\]'"):
        settings_of(EmbeddedRocksDBStateBackend())


class Remember(KeyedProcessFunction):
    """Values, lists, maps and timers in one function."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.by_digit = runtime_context.get_map_state(MapStateDescriptor("digits", Types.LONG(), Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(value)
        self.by_digit.put(value % 10, (self.by_digit.get(value % 10) or 0) + 1)
        ctx.timer_service().register_event_time_timer(1000)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.count.value(), sum(self.seen.get()), dict(self.by_digit.items())


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_job_with_rocksdb(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    env = environment(step_records=500)
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(tmp_path))
    env.set_state_backend(backend)
    databases: set[str] = set()
    env.add_step_listener(
        lambda report: databases.update(path.name for path in tmp_path.glob("beadline-rocksdb-*/*/worker-*/*"))
    )
    numbers = list(range(3000))
    results = collect(env.from_collection(numbers, Types.LONG()).key_by(lambda n: n % 7).process(Remember()))
    expected = []
    for key in range(7):
        mine = [n for n in numbers if n % 7 == key]
        digits: dict[int, int] = {}
        for n in mine:
            digits[n % 10] = digits.get(n % 10, 0) + 1
        expected.append((key, len(mine), sum(mine), digits))
    assert sorted(results, key=lambda result: result[0]) == expected
    assert {name.split("-")[1] for name in databases} == {"0", "1"}
    for _ in range(10):
        if not list(tmp_path.glob("beadline-rocksdb-*/*")):
            break
        # A busy machine may let one worker hear the farewell for two; the other forgets the execution with its next
        # task.
        collect(environment().from_collection([1, 2], Types.LONG()).map(lambda n: n))
    assert not list(tmp_path.glob("beadline-rocksdb-*/*"))  # the execution is over, and took its files along
