"""State backends and slot sharing groups hold settings; backends write them into a configuration."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from beadline.common.configuration import Configuration
from beadline.datastream import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    MemorySize,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    SlotSharingGroup,
    StateBackend,
)
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError


def written(backend: StateBackend) -> dict[str, str]:
    configuration = Configuration()
    backend.apply_to(configuration)
    return configuration.to_dict()


def test_the_heap() -> None:
    assert written(HashMapStateBackend()) == {"state.backend.type": "hashmap"}


class TestRocksDB:
    def test_says_only_what_it_was_told(self) -> None:
        assert written(EmbeddedRocksDBStateBackend()) == {"state.backend.type": "rocksdb"}

    def test_defaults(self) -> None:
        backend = EmbeddedRocksDBStateBackend()
        assert not backend.is_incremental_checkpoints_enabled()
        assert backend.get_db_storage_paths() == []
        assert backend.get_predefined_options() is PredefinedOptions.DEFAULT
        assert backend.get_number_of_transfer_threads() == 4
        assert backend.get_options() is None

    def test_says_all_that_it_was_told(self) -> None:
        backend = EmbeddedRocksDBStateBackend(True)
        backend.set_db_storage_paths("/disk1/", "file:///disk2//db")
        backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
        backend.set_number_of_transfer_threads(2)
        assert backend.get_db_storage_paths() == ["/disk1", "/disk2/db"]
        assert written(backend) == {
            "state.backend.type": "rocksdb",
            "execution.checkpointing.incremental": "true",
            "state.backend.rocksdb.localdir": "/disk1,/disk2/db",
            "state.backend.rocksdb.predefined-options": "FLASH_SSD_OPTIMIZED",
            "state.backend.rocksdb.checkpoint.transfer.thread.num": "2",
        }

    def test_no_paths_goes_back_to_sparks(self) -> None:
        backend = EmbeddedRocksDBStateBackend()
        backend.set_db_storage_paths("/disk1")
        backend.set_db_storage_paths()
        assert backend.get_db_storage_paths() == []

    def test_refuses_what_cannot_work(self) -> None:
        backend = EmbeddedRocksDBStateBackend()
        with pytest.raises(ConfigurationError, match="not on a local disk"):
            backend.set_db_storage_paths("/disk1", "s3://bucket/db")
        assert backend.get_db_storage_paths() == []
        with pytest.raises(ConfigurationError, match="not empty"):
            backend.set_db_storage_paths(" ")
        with pytest.raises(ConfigurationError, match="needs absolute paths"):
            backend.set_db_storage_paths("disk1")
        with pytest.raises(ConfigurationError, match="at least 1, not 0"):
            backend.set_number_of_transfer_threads(0)
        with pytest.raises(ConfigurationError, match=r"PredefinedOptions\.DEFAULT"):
            backend.set_predefined_options("DEFAULT")  # type: ignore[arg-type]
        with pytest.raises(TypeMismatchError, match="True, False or None"):
            EmbeddedRocksDBStateBackend("yes")  # type: ignore[arg-type]
        with pytest.raises(UnsupportedFeatureError, match="set_predefined_options"):
            backend.set_options("org.example.MyOptions")


class TestOlderNames:
    def test_memory(self) -> None:
        backend = MemoryStateBackend(savepoint_path="/sp", max_state_size=4096)
        assert backend.get_max_state_size() == 4096
        assert written(backend) == {
            "state.backend.type": "hashmap",
            "execution.checkpointing.storage": "jobmanager",
            "execution.checkpointing.savepoint-dir": "/sp",
            "beadline.checkpointing.jobmanager.max-state-size": "4096 b",
        }

    def test_fs(self) -> None:
        backend = FsStateBackend("file:///cp", "/sp", 100, 8192)
        assert backend.get_checkpoint_path() == "file:///cp"
        assert (backend.get_min_file_size_threshold(), backend.get_write_buffer_size()) == (100, 8192)
        assert written(backend) == {
            "state.backend.type": "hashmap",
            "execution.checkpointing.storage": "filesystem",
            "execution.checkpointing.dir": "file:///cp",
            "execution.checkpointing.savepoint-dir": "/sp",
            "execution.checkpointing.data-inline-threshold": "100 b",
            "execution.checkpointing.write-buffer-size": "8192",
        }

    def test_rocksdb(self) -> None:
        backend = RocksDBStateBackend("file:///cp", True)
        assert written(backend) == {
            "state.backend.type": "rocksdb",
            "execution.checkpointing.storage": "filesystem",
            "execution.checkpointing.dir": "file:///cp",
            "execution.checkpointing.incremental": "true",
        }
        fs = FsStateBackend("/cp")
        assert RocksDBStateBackend(checkpoint_stream_backend=fs).get_checkpoint_backend() is fs

    def test_rocksdb_needs_a_place_for_checkpoints(self) -> None:
        with pytest.raises(ConfigurationError, match="needs a path"):
            RocksDBStateBackend()
        with pytest.raises(TypeMismatchError, match="FsStateBackend or a MemoryStateBackend"):
            RocksDBStateBackend(checkpoint_stream_backend=HashMapStateBackend())  # type: ignore[arg-type]

    def test_snapshots_are_always_asynchronous(self) -> None:
        assert MemoryStateBackend().is_using_asynchronous_snapshots()
        assert FsStateBackend("/cp").is_using_asynchronous_snapshots()
        with pytest.raises(UnsupportedFeatureError, match="Leave the argument out"):
            MemoryStateBackend(using_asynchronous_snapshots=False)
        with pytest.raises(UnsupportedFeatureError, match="Leave the argument out"):
            FsStateBackend("/cp", using_asynchronous_snapshots=False)

    def test_a_java_backend_is_refused(self) -> None:
        with pytest.raises(UnsupportedFeatureError, match="HashMapStateBackend"):
            CustomStateBackend(object())


class TestMemorySize:
    def test_units(self) -> None:
        size = MemorySize(bytes_size=3 * 1024**4 + 1)
        assert size.get_bytes() == 3 * 1024**4 + 1
        assert size.get_kibi_bytes() == 3 * 1024**3
        assert size.get_mebi_bytes() == 3 * 1024**2
        assert size.get_gibi_bytes() == 3 * 1024
        assert size.get_tebi_bytes() == 3

    def test_order_and_equality(self) -> None:
        assert MemorySize.of_mebi_bytes(1) == MemorySize(1024**2)
        assert hash(MemorySize.of_mebi_bytes(1)) == hash(MemorySize(1024**2))
        assert MemorySize(1) < MemorySize(2) <= MemorySize(2)
        assert MemorySize(1) != 1
        with pytest.raises(TypeError):
            MemorySize(1) < 2  # type: ignore[operator]  # noqa: B015 - the comparison is what raises

    @pytest.mark.parametrize(
        ("number", "text"),
        [(0, "0 bytes"), (1023, "1023 bytes"), (2048, "2 kb"), (5 * 1024**2, "5 mb"), (1024**5, "1024 tb")],
    )
    def test_text(self, number: int, text: str) -> None:
        assert str(MemorySize(number)) == text

    @pytest.mark.parametrize("wrong", [-1, 1.5, "1 kb", True])
    def test_sizes_are_whole_and_not_negative(self, wrong: Any) -> None:
        with pytest.raises(ConfigurationError):
            MemorySize(wrong)


class TestSlotSharingGroup:
    def test_a_name_is_enough(self) -> None:
        group = SlotSharingGroup.builder("light").build()
        assert group.get_name() == "light"
        assert group.get_cpu_cores() is None
        assert group.get_task_heap_memory() is None
        assert group.get_managed_memory() is None
        assert group.get_external_resources() == {}

    def test_resources(self) -> None:
        builder = SlotSharingGroup.builder("heavy").set_cpu_cores(1.5).set_task_heap_memory_mb(100)
        builder.set_task_off_heap_memory_mb(200).set_managed_memory(MemorySize(300)).set_external_resource("gpu", 1)
        group = builder.build()
        assert group.get_cpu_cores() == 1.5
        assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(100)
        assert group.get_task_off_heap_memory() == MemorySize.of_mebi_bytes(200)
        assert group.get_managed_memory() == MemorySize(300)
        assert group.get_external_resources() == {"gpu": 1.0}
        assert group == builder.build()
        assert pickle.loads(pickle.dumps(group)) == group
        assert group != SlotSharingGroup.builder("heavy").build()

    def test_what_is_not_said_is_zero_once_something_is(self) -> None:
        group = SlotSharingGroup.builder("g").set_cpu_cores(1).set_task_heap_memory(MemorySize(1)).build()
        assert group.get_managed_memory() == group.get_task_off_heap_memory() == MemorySize(0)

    def test_cores_and_heap_come_together(self) -> None:
        with pytest.raises(ConfigurationError, match="no CPU cores"):
            SlotSharingGroup.builder("g").set_task_heap_memory_mb(1).build()
        with pytest.raises(ConfigurationError, match="no task heap memory"):
            SlotSharingGroup.builder("g").set_cpu_cores(1).build()
        with pytest.raises(ConfigurationError, match="no CPU cores"):
            SlotSharingGroup.builder("g").set_external_resource("gpu", 1).build()

    def test_refuses_what_cannot_work(self) -> None:
        builder = SlotSharingGroup.builder("g")
        with pytest.raises(ConfigurationError, match="more than 0, not -1"):
            builder.set_cpu_cores(-1)
        with pytest.raises(ConfigurationError, match="more than 0 bytes"):
            builder.set_task_heap_memory_mb(0)
        with pytest.raises(TypeMismatchError, match="MemorySize, not int"):
            builder.set_managed_memory(5)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="name"):
            SlotSharingGroup.builder("").build()
