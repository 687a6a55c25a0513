"""What options say about the state backend."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from beadline.common import Configuration
from beadline.errors import ConfigurationError, UnsupportedFeatureError
from beadline.state.backend_settings import KEYS, BackendSettings, RocksSettings

MB = 1 << 20


def read(**options: Any) -> BackendSettings:
    """Options by the end of their key."""
    values = {"state.backend.type": "rocksdb"}
    for name, value in options.items():
        values["state.backend.rocksdb." + name.replace("__", ".").replace("_", "-")] = str(value)
    assert values.keys() <= KEYS
    return BackendSettings.from_configuration(Configuration.from_dict(values))


def test_the_heap_is_the_default() -> None:
    assert BackendSettings.from_configuration(Configuration()) == BackendSettings("hashmap")


@pytest.mark.parametrize("name", ["hashmap", "HashMap", "filesystem", "jobmanager"])
def test_names_of_the_heap(name: str) -> None:
    assert BackendSettings.from_configuration(Configuration.from_dict({"state.backend.type": name})).kind == "hashmap"


def test_the_older_key_is_understood() -> None:
    assert BackendSettings.from_configuration(Configuration.from_dict({"state.backend": "rocksdb"})).kind == "rocksdb"


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'forst' is not known\. Use 'hashmap' or 'rocksdb'"):
        BackendSettings.from_configuration(Configuration.from_dict({"state.backend.type": "forst"}))


def test_a_worker_has_one_limit_for_all_its_databases() -> None:
    assert read().rocks == RocksSettings()
    assert read().rocks.memory == 256 * MB
    assert read(memory__fixed_per_slot="64mb", memory__managed=False).rocks.memory == 64 * MB
    assert read(memory__fixed_per_slot="64mb", memory__write_buffer_ratio=0.25).rocks.write_ratio == 0.25


def test_without_managed_memory_each_database_has_its_own() -> None:
    rocks = read(memory__managed=False, block__cache_size="16mb", writebuffer__size="4mb", writebuffer__count=3).rocks
    assert (rocks.memory, rocks.block_cache, rocks.write_buffer, rocks.write_buffers) == (None, 16 * MB, 4 * MB, 3)


def test_how_large_a_database_of_a_workers_own_may_be() -> None:
    key = "beadline.rocksdb.own-database.max-size"
    assert key in KEYS
    assert read().rocks.own_bytes == 64 * MB
    for text, size in (("1gb", 1024 * MB), ("0", 0)):
        given = Configuration.from_dict({"state.backend.type": "rocksdb", key: text})
        assert BackendSettings.from_configuration(given).rocks.own_bytes == size


def test_predefined_options_and_the_jobs_own() -> None:
    assert read(predefined_options="DEFAULT").rocks == RocksSettings()
    assert read(predefined_options="SPINNING_DISK_OPTIMIZED").rocks == RocksSettings(threads=4, dynamic_levels=True)
    assert read(predefined_options="FLASH_SSD_OPTIMIZED", thread__num=7).rocks == RocksSettings(threads=7)
    rocks = read(predefined_options="spinning_disk_optimized_high_mem", block__cache_size="1mb").rocks
    assert (rocks.block_cache, rocks.block_size, rocks.write_buffers) == (1 * MB, 128 << 10, 4)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("predefined_options", "FASTEST", "'FASTEST' is not known. Use one of DEFAULT, SPINNING_DISK_OPTIMIZED"),
        ("memory__fixed_per_slot", "1mb", "memory.fixed-per-slot must be at least 8388608, got 1048576"),
        ("memory__write_buffer_ratio", 1.5, "must lie between 0 and 1, got 1.5"),
        ("writebuffer__count", 0, "writebuffer.count must be at least 1, got 0"),
        ("thread__num", 0, "thread.num must be at least 1, got 0"),
        ("compaction__style", "FIFO", "'fifo' can't work. Use one of level, universal, none"),
        ("localdir", "/a,s3://bucket/b", "'s3://bucket/b' is not on a local disk"),
    ],
)
def test_values_that_cannot_work(option: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read(**{option: value})


def test_an_options_factory_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"options-factory: 'com\.acme\.Tuned' names a Java class"):
        read(options_factory="com.acme.Tuned")


def test_local_directories() -> None:
    assert read(localdir="/a/b, file:///c ,file:/d").rocks.directories == ("/a/b", "/c", "/d")


def test_settings_travel() -> None:
    settings = read(localdir="/a", use_bloom_filter=False)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert settings.rocks.bloom_bits == 0
    assert len(pickle.dumps(settings)) < 1000


def test_what_has_no_effect_is_known() -> None:
    cache, ratio = "state.backend.rocksdb.block.cache-size", "state.backend.rocksdb.memory.write-buffer-ratio"
    asked = {"state.backend.type", cache, ratio}
    assert BackendSettings().without_effect(asked) == {cache, ratio}
    assert read().without_effect(asked) == {cache}
    assert read(memory__managed=False).without_effect(asked) == {ratio}
