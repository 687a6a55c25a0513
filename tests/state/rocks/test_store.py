"""What only RocksDB has: files, locks, a version on disk, limits."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.errors import EnvironmentSetupError, StepError, VersionError
from beadline.state import backend_settings
from beadline.state.backend_settings import RocksSettings
from beadline.state.key_groups import encode_key, key_group_of
from beadline.state.rocks import database, folders, tables
from beadline.state.rocks import store as rocks_store
from beadline.state.rocks.encoding import RowKeys, TimerKeys, decode_map_key, encode_map_key
from beadline.state.rocks.folders import BASE, Workplace, _make_own
from beadline.state.rocks.store import RocksStore
from beadline.state.rocks.tables import Remembered
from beadline.state.segments import segment as segment_module
from beadline.state.segments.segment import SegmentReader, encode_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef
from tests.state.contract.subject import ANY, HEAP, ROCKSDB, Subject, let_go

pytest.importorskip("rocksdict")

COMMON = RocksSettings(own_bytes=0)
VALUE = ValueStateDescriptor("v", ANY)
LIST = ListStateDescriptor("l", ANY)
MAP = MapStateDescriptor("m", ANY, ANY)


@pytest.fixture
def folder() -> Iterator[Path]:
    path = tempfile.mkdtemp(prefix="beadline-rocks-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    yield Path(path)
    let_go(Path(path))


def subject(folder: Path, **options: Any) -> Subject:
    return Subject(ROCKSDB, "kept", folder, (VALUE, LIST, MAP), **options)


def fill(one: Subject, turns: int = 3, keys: int = 20) -> None:
    for turn in range(turns):
        with one.step() as step:
            for key in range(keys):
                step.at(key)["v"].update(turn)
                step["l"].add(turn)
                step["m"].put(turn, key)
                step.timers.register(turn, key)


def check(one: Subject, turns: int = 3, keys: int = 20) -> None:
    assert one.stored("v", "value") == dict.fromkeys(range(keys), turns - 1)
    assert one.stored("l", "list") == {key: list(range(turns)) for key in range(keys)}
    assert one.stored("m", "map") == {key: dict.fromkeys(range(turns), key) for key in range(keys)}
    assert {time: len(slots) for time, slots in one.stored("_event-timers", "timer").items()} == dict.fromkeys(
        range(turns), keys
    )


def store_of(one: Subject) -> RocksStore:
    store = one.open()
    assert isinstance(store, RocksStore)
    return store


# -- a database of each worker's own


def test_small_state_is_in_a_database_that_stays_open(folder: Path) -> None:
    one = subject(folder)
    fill(one)
    store = store_of(one)
    database = store._database
    store.release()
    fill(one)
    assert store_of(one)._database is database
    assert Path(store.folder).parent.name.startswith(f"worker-{os.getpid()}-")


def test_workers_take_turns_each_with_its_own(folder: Path) -> None:
    """Each reads from the segments what the other one wrote, and nothing else."""
    one, two = subject(folder), subject(folder)
    for turn in range(6):
        mine, other = (one, two) if turn % 2 else (two, one)
        mine.reads = 0
        with mine.step() as step:
            for key in range(20):
                assert step.at(key)["v"].value() == (turn - 1 if turn else None)
                step["v"].update(turn)
                step["l"].add(turn)
                step["m"].put(turn, key)
                step.timers.register(turn, key)
        assert mine.reads == (turn > 0)
        other.handle = mine.handle
    check(one, 6)
    check(two, 6)
    assert store_of(one).folder != store_of(two).folder
    for subject_ in (one, two):
        subject_.close()
    assert list(folder.rglob("*")) == [folder / BASE]


def test_a_worker_with_many_subtasks_keeps_some_databases_open(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = len(RocksStore.open)
    monkeypatch.setattr(database, "most_open", lambda: elsewhere + 2)
    subjects = [subject(folder, name="many", subtask=subtask, parallelism=5) for subtask in range(5)]
    for one in subjects:
        fill(one)
        one.reads = 0
    assert len(RocksStore.open) == elsewhere + 2
    for one in subjects:
        check(one)
        fill(one, turns=1)
        assert one.reads == 0, "what was closed was complete"
    for one in subjects:
        one.close()


def test_a_database_that_has_grown_becomes_the_common_one(folder: Path) -> None:
    limit = RocksSettings(own_bytes=10_000)
    one, two = subject(folder, rocks=limit), subject(folder, rocks=limit)
    fill(one)
    two.handle = one.handle
    check(two)
    assert one.handle.size < limit.own_bytes
    owns = [Path(store_of(worker).folder) for worker in (one, two)]
    while one.handle.size <= limit.own_bytes:
        fill(one)
    expected = one.stored("l", "list")
    assert Path(store_of(one).folder).name == "1-0"
    one.store.release()  # type: ignore[union-attr]
    two.handle, one.reads, two.reads = one.handle, 0, 0
    assert two.stored("l", "list") == expected
    assert two.reads == 0  # it was all there
    assert one.stored("l", "list") == expected
    assert one.reads == 0
    assert not any(own.exists() for own in owns)


def test_many_entries_in_few_bytes_are_large_too(folder: Path) -> None:
    one = subject(folder)
    fill(one)
    segment = one.handle.segments[-1]
    many = SegmentRef(segment.version, 3_000_000, segment.size, inline=segment.inline)
    one.handle = KeyedStateHandle(one.handle.root, (*one.handle.segments[:-1], many))
    check(one)
    assert Path(store_of(one).folder).name == "1-0"


def stay(folder: Path, handle: KeyedStateHandle, ready: Any) -> None:
    """A worker that has a database of its own, a part in a common one, and is killed."""
    one = subject(folder, handle=handle)
    common = subject(folder, handle=handle, name="large", rocks=COMMON)
    assert store_of(one).version == store_of(common).version == handle.version
    common.store.release()  # type: ignore[union-attr]
    ready.set()
    signal.pause()


def test_what_dead_workers_leave_is_removed_by_who_comes_next(folder: Path) -> None:
    one = subject(folder)
    fill(one)
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    child = context.Process(target=stay, args=(folder, one.handle, ready))
    child.start()
    ready.wait()
    theirs = list(folder.glob(f"beadline-rocksdb-*/*/worker-{child.pid}-*"))
    assert {place.parent.name for place in theirs} == {"run", "large"}
    next_one = subject(folder, handle=one.handle, name="next")
    check(next_one)
    assert all(place.exists() for place in theirs), "its worker lives"
    child.kill()
    child.join()
    check(subject(folder, handle=one.handle, name="another"))
    assert not any(place.exists() for place in theirs)
    assert not (folder / BASE / "large").exists()
    assert store_of(one)._database.get(b"nothing") is None
    check(one)


# -- a database in common


def test_who_does_not_get_the_database_builds_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocks_store, "_WAIT_SECONDS", 0.02)
    one, two = subject(folder, rocks=COMMON), subject(folder, rocks=COMMON)
    fill(one)
    two.handle = one.handle
    with one.step(fate="lost"):
        inside = store_of(two)
        assert inside.folder != store_of(one).folder
        inside.release()
        check(two)
        own = Path(inside.folder)
        assert own.is_dir()
    check(two)  # the common one is free again
    assert not own.exists()
    assert Path(store_of(two).folder).name == "1-0"


def test_a_worker_goes_on_with_the_database_that_another_left(folder: Path) -> None:
    one, two = subject(folder, rocks=COMMON), subject(folder, rocks=COMMON)
    fill(one)
    two.handle = one.handle
    check(two)
    # Only the last delta was not in the database yet.
    assert two.reads == 1


def die(folder: Path, handle: KeyedStateHandle) -> None:
    """A worker that is killed in the middle: nothing is flushed, closed or unlocked."""
    one = subject(folder, handle=handle, rocks=COMMON)
    assert store_of(one).version == handle.version
    os._exit(9)


def test_what_a_killed_worker_leaves_is_used_or_built_anew(folder: Path) -> None:
    one = subject(folder, rocks=COMMON)
    fill(one)

    child = multiprocessing.get_context("spawn").Process(target=die, args=(folder, one.handle))
    child.start()
    child.join()
    assert child.exitcode == 9
    two = subject(folder, handle=one.handle, rocks=COMMON)
    check(two)
    assert two.reads in (1, 3)  # the delta that was not flushed, or everything
    assert Path(store_of(two).folder).name == "1-0"


def test_damaged_files_are_built_anew(folder: Path) -> None:
    one = subject(folder, rocks=COMMON)
    fill(one)
    check(one)
    place = Path(store_of(one).folder)
    one.store.release()  # type: ignore[union-attr]
    (place / "CURRENT").write_text("nonsense\n")
    check(one)
    shutil.rmtree(place)
    check(one)


@pytest.mark.parametrize("own_bytes", [0, 1 << 20])
def test_closing_removes_the_files(folder: Path, own_bytes: int) -> None:
    one = subject(folder, rocks=RocksSettings(own_bytes=own_bytes))
    fill(one)
    assert any(folder.rglob("MANIFEST-*"))
    one.close()
    one.store.close()  # type: ignore[union-attr]  # a second time does no harm
    assert list(folder.rglob("*")) == [folder / BASE]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    one = Subject(ROCKSDB, "kept", tmp_path / "file", (VALUE,))
    with pytest.raises(StepError, match=r"can't make the folder .*file/beadline-rocksdb"), one.step():
        pass


def test_spark_says_where_local_files_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/a,{tmp_path}/b")
    given = RocksSettings(directories=(f"{tmp_path}/c",))
    places = [folders.enter_workplace(settings, "r", i) for settings, i in ((COMMON, 0), (COMMON, 1), (given, 5))]
    assert [place.execution_folder for place in places] == [f"{tmp_path}/{root}/{BASE}/r" for root in "abc"]
    for place in places:
        place.leave()
        assert not os.path.exists(place.execution_folder)


# -- large segments


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of some thousand entries count as large, and have many blocks."""
    monkeypatch.setattr(segment_module, "_BLOCK_ENTRIES", 500)
    monkeypatch.setattr(rocks_store, "_LOAD_ENTRIES", 1000)
    monkeypatch.setattr(rocks_store, "_BLOCKWISE_BYTES", 1000)
    monkeypatch.setattr(rocks_store, "_BATCH_BYTES", 10_000)


def large_segment(entries: int, by_key: bool, folder: Path) -> tuple[Subject, Subject]:
    """A heap with one large segment, and a RocksDB that has nothing yet."""
    heap = Subject(HEAP, "kept", folder, (VALUE, LIST, MAP), max_parallelism=13)
    for half in range(2):
        with heap.step() as step:
            for number in range(half, entries, 2):
                step.at(("k", number))["v"].update((number, "x" * (number % 50)))
                if number % 3 == 0:
                    step["l"].add_all([number, [number]])
                if number % 5 == 0:
                    step["m"].put_all({"a": number, number: [1]})
                if number % 7 == 0:
                    step.timers.register(number % 100, ("k", number))
    heap.merge(by_key=by_key)
    return heap, subject(folder, max_parallelism=13, name="loaded", handle=heap.handle)


def same(heap: Subject, rocks: Subject) -> None:
    for name, kind in (("v", "value"), ("l", "list"), ("m", "map")):
        assert rocks.stored(name, kind) == heap.stored(name, kind)
    ours, theirs = (one.stored("_event-timers", "timer") for one in (rocks, heap))
    assert {time: set(slots) for time, slots in ours.items()} == {time: set(s) for time, s in theirs.items()}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("from_file", [False, True])
def test_a_large_segment_is_loaded_block_by_block(folder: Path, by_key: bool, from_file: bool) -> None:
    heap, rocks = large_segment(5_000, by_key, folder)
    segment = heap.handle.segments[0]
    if from_file:
        path = folder / "one.run"
        path.write_bytes(b"something before" + (segment.inline or b""))
        ref = SegmentRef(segment.version, segment.entries, segment.size, path=str(path), offset=16)
        rocks.handle = type(rocks.handle)(rocks.handle.root, (ref,))
    same(heap, rocks)
    assert rocks.reads == (0 if from_file else 1)
    levels = store_of(rocks)._database.property_value("rocksdb.levelstats").splitlines()
    files_below = sum(int(line.split()[1]) for line in levels[3:])
    assert bool(files_below) is by_key  # rows in order need no compaction
    rocks.store.release()  # type: ignore[union-attr]
    with rocks.step() as step:
        step.at(("k", 15))["l"].add("more")
        step["m"].remove("a")
        assert step["v"].value() == (15, "x" * 15)
    assert rocks.stored("l", "list")["k", 15] == [15, [15], "more"]
    assert rocks.stored("m", "map")["k", 15] == {15: [1]}


@pytest.mark.usefixtures("small_blocks")
def test_a_load_that_broke_off_is_begun_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heap, rocks = large_segment(5_000, True, folder)
    parts = SegmentReader.parts

    def break_off(*arguments: Any) -> Iterator[Any]:
        for number, block in enumerate(parts(*arguments)):
            if number == 2:
                raise VersionError("broken")
            yield block

    monkeypatch.setattr(SegmentReader, "parts", break_off)
    with pytest.raises(VersionError, match="broken"), rocks.step():
        pass
    assert not list(folder.glob("beadline-rocksdb-*/loaded/worker-*/*")), "what it began is gone"
    monkeypatch.setattr(SegmentReader, "parts", parts)
    same(heap, rocks)


@pytest.mark.usefixtures("small_blocks")
def test_segments_of_several_former_subtasks_are_loaded_like_one(folder: Path) -> None:
    whole, _ = large_segment(5_000, True, folder)
    segments = []
    for part in whole.rescaled(3):
        part.settings = backend_settings.BackendSettings()
        with part.step() as step:
            for number in range(0, 5_000, 50):
                if key_group_of(("k", number), 13) in part.groups:
                    step.at(("k", number))["l"].add("last")
        part.merge()
        segments.append(part.handle.segments[0].restricted(part.groups))
    joined = KeyedStateHandle("joined", tuple(segments))
    heap = Subject(HEAP, "kept", folder, whole.descriptors, max_parallelism=13, handle=joined)
    rocks = subject(folder, max_parallelism=13, name="joined", handle=joined)
    same(heap, rocks)
    assert rocks.stored("l", "list")["k", 150] == [150, [150], "last"]
    levels = store_of(rocks)._database.property_value("rocksdb.levelstats").splitlines()
    assert sum(int(line.split()[1]) for line in levels[3:]) >= 3


@pytest.mark.usefixtures("small_blocks")
def test_a_large_segment_on_top_of_others(folder: Path) -> None:
    heap, _ = large_segment(100, True, folder)
    with heap.step() as step:
        for number in range(5_000):
            step.at(("k", number))["v"].update(-number)
            step["l"].add(-number)
    same(heap, subject(folder, max_parallelism=13, name="on-top", handle=heap.handle))


# -- limits and settings


def test_values_are_remembered_up_to_a_limit() -> None:
    memory = Remembered()
    memory.limit = 4 * (tables._ENTRY_BYTES + 20)
    memory.take({1: "a", 2: "b"}, write_later=False)
    assert 2 * tables._ENTRY_BYTES < memory.size < 2 * (tables._ENTRY_BYTES + 20)
    for turn in range(10):
        memory.take({2: turn, 3: turn}, write_later=True)
        assert not memory.is_too_large(), "what was replaced does not count"
    assert memory.values == {1: "a", 2: 9, 3: 9}
    assert memory.unwritten == {2: 9, 3: 9}
    memory.take({4: 0, 5: 0}, write_later=False)
    assert memory.is_too_large()
    memory.unwritten = {}
    memory.shrink()
    assert memory.values == {3: 9, 4: 0, 5: 0}
    memory.take({6: "large" * 1000}, write_later=False)
    assert memory.is_too_large()
    memory.shrink()
    assert memory.values == {}


def test_values_are_written_when_they_are_too_many_or_somebody_goes_through_them(folder: Path) -> None:
    one = subject(folder, rocks=RocksSettings(memory=16 << 20))

    def rows() -> int:
        return sum(1 for _ in store_of(one)._rows.from_(b"\x00\x01", b""))

    keys = range(3_000)
    for turn in range(3):
        with one.step() as step:
            for key in keys:
                assert step.at(key)["v"].value() == (turn - 1 if turn else None)
                step["v"].update(turn)
    store_of(one)
    assert rows() == 0
    assert one.stored("v", "value") == dict.fromkeys(keys, 2)
    assert rows() == len(keys)
    with one.step() as step:
        for key in keys:
            step.at(key)["v"].update(bytes(2_000))
        step.at(0)["v"].clear()
    store_of(one)
    remembered = store_of(one)._remembered["v"]
    assert not remembered.unwritten
    assert remembered.size < 4 << 20
    assert rows() == len(keys) - 1
    with one.step(fate="lost") as step:
        assert step.at(0)["v"].value() is None
        assert all(step.at(key)["v"].value() == bytes(2_000) for key in keys[1:])
        assert remembered.size < 5 << 20
    one.close()


def test_a_value_is_read_once_a_step(folder: Path) -> None:
    one = subject(folder, rocks=COMMON)
    fill(one, turns=1)
    one.lose(files=False)
    with one.step(fate="lost") as step:
        base = step["v"]._table.base
        remembered = store_of(one)._remembered["v"]
        for _ in range(3):
            assert step.at(7)["v"].value() == 0
            assert step.at("nobody")["v"].value() is None
        assert remembered.values == {7: 0, "nobody": None}
        assert base.get(7) == 0


def test_without_rocksdict_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backend_settings.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentSetupError, match=r"pip install 'beadline\[rocksdb\]'"):
        Subject(ROCKSDB, "kept", tmp_path, (VALUE,)).open()


@pytest.mark.parametrize(
    "settings",
    [
        RocksSettings(memory=16 << 20),
        RocksSettings(memory=None, block_cache=1 << 20, write_buffer=1 << 20, write_buffers=3, bloom_bits=0),
        RocksSettings(style="universal", threads=1, open_files=64),
        RocksSettings(style="none", dynamic_levels=True, block_size=64 << 10),
    ],
)
def test_with_other_settings(folder: Path, settings: RocksSettings) -> None:
    one = subject(folder, rocks=settings)
    fill(one)
    check(one)


def test_databases_of_one_process_share_their_memory(folder: Path) -> None:
    limit = RocksSettings(memory=32 << 20)
    cache, buffers = database._shared_memory(limit.memory or 0, limit.write_ratio)
    parts = [subject(folder, name=f"part-{i}", rocks=limit) for i in range(3)]
    for part in parts:
        for turn in range(4):
            with part.step() as step:
                for key in range(300):
                    step.at(key)["v"].update(os.urandom(10_000) + bytes([turn]))
    for part in parts:
        with part.step(fate="lost") as step:
            assert all(len(step.at(key)["v"].value()) == 10_001 for key in range(300))
            assert buffers.get_buffer_size() == 16 << 20
            assert 0 < cache.get_usage() < 36 << 20


# -- keys


def test_numbers_as_map_keys_sort_by_value() -> None:
    numbers = [-(2**100), -70000, -256, -255, -1, 0, 1, 255, 256, 70000, 2**100]
    encoded = [encode_map_key(number) for number in numbers]
    assert encoded == sorted(encoded, key=lambda data: data or b"")
    assert [decode_map_key(data or b"") for data in encoded] == numbers


def test_rows_sort_by_key_group_and_encoded_key_as_segments_do(folder: Path) -> None:
    heap, _ = large_segment(500, True, folder)
    slots = list(heap.stored("v", "value"))
    keys = RowKeys(1, 13, namespaced=False)
    expected = sorted(slots, key=lambda slot: (key_group_of(slot, 13), encode_key(slot)))
    assert sorted(slots, key=keys.of_slot) == expected
    assert [keys.slot_from(keys.of_slot(slot)) for slot in slots] == slots


def test_timers_sort_by_time() -> None:
    keys = TimerKeys(3, namespaced=False)
    times = [-(2**63), -1, 0, 5, 2**63 - 1]
    rows = [keys.of(time, "k\x00") for time in times]
    assert rows == sorted(rows)
    assert [(keys.timestamp_of(row), keys.slot_from(row)) for row in rows] == [(time, "k\x00") for time in times]


def test_an_empty_segment_changes_nothing(folder: Path) -> None:
    one = subject(folder)
    fill(one)
    assert encode_segment({}, 16) == b""
    one.handle = one.handle.plus(SegmentRef("nothing", 0, 0, inline=b""))
    check(one)


def test_nobody_else_may_enter_the_folder(folder: Path) -> None:
    _make_own(str(folder / BASE))
    assert (folder / BASE).stat().st_mode & 0o777 == 0o700
    (folder / BASE).chmod(0o755)
    _make_own(str(folder / BASE))
    assert (folder / BASE).stat().st_mode & 0o777 == 0o700
    assert str(os.getuid()) in BASE


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
def test_a_folder_of_somebody_else_is_refused(folder: Path) -> None:
    (folder / BASE).mkdir()
    os.chown(folder / BASE, 12345, 12345)
    with pytest.raises(StepError, match=r"which belongs to user 12345: .* state\.backend\.rocksdb\.localdir"):
        Workplace(str(folder), "execution")


def test_a_link_to_elsewhere_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / BASE).symlink_to(tmp_path)
    with pytest.raises(StepError, match="which is no folder"):
        Workplace(str(folder), "execution")
