"""The sending end of an exchange, and what the receiving end reads from it."""

from __future__ import annotations

import enum
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.api.function import KeySelector, Partitioner
from beadline.common import Types
from beadline.graph.specs import Broadcast, Custom, Forward, Hash, Partitioning, Rebalance, Rescale, Shuffle
from beadline.runtime.exchange import writer as writer_module
from beadline.runtime.exchange.gate import ChannelCheck
from beadline.runtime.exchange.rows import SCHEMA, RowBuffer, WireRow, read_rows, write_rows
from beadline.runtime.exchange.writer import IDLE, ChannelWriter, make_writer
from beadline.runtime.failure import UserCodeError
from beadline.state.key_groups import key_group_of, subtask_of_key_group
from tests.graph.programs import Program, by, same


class Link:
    """A writer and the channels behind it."""

    def __init__(self, partitioning: Partitioning, upstream: int = 1, downstream: int = 3, subtask: int = 0) -> None:
        program = Program()
        program.collect((program.source(parallelism=upstream), partitioning), parallelism=downstream)
        plan = program.plan()
        self.plan = plan
        self.broadcast = isinstance(partitioning, Broadcast)
        if not plan.edges[0].exchange:
            raise AssertionError("the edge is no exchange")
        self.writer: ChannelWriter = make_writer(plan.edges[0], plan.nodes[1], plan.nodes[2], subtask)
        self.begin()

    def begin(self, step: int = 1) -> Link:
        self.rows: list[WireRow] = []
        self.writer.begin(step, self.rows.append)
        return self

    def send(self, *what: Any) -> Link:
        """Lists are records without timestamps, tuples ``(records, timestamps)``, the rest is control."""
        for item in what:
            if isinstance(item, list):
                self.writer.records(item, None)
            elif isinstance(item, tuple):
                self.writer.records(*item)
            else:
                self.writer.control(item)
        return self

    def received(self) -> list[list[Any]]:
        """What each destination reads, by way of Arrow and all checks: records with timestamps, and control."""
        ends = self.writer.finish()
        rows = list(read_rows(write_rows(iter([self.rows] if self.rows else []))))
        got: list[list[Any]] = []
        for destination, seq, count, digest in ends:
            check = ChannelCheck("c", self.broadcast)
            read: list[Any] = []
            for row in rows:
                if row.dest == destination:
                    for element in check.chunk(row):
                        if isinstance(element, tuple):
                            records, times, keys = element
                            assert times is None or len(times) == len(records)
                            assert keys is None or len(keys) == len(records)
                            read += zip(records, times or [None] * len(records), strict=True)
                        else:
                            read.append(element)
            check.barrier(seq, count, digest)
            got.append(read)
        return got

    def records(self) -> list[list[Any]]:
        return [[item[0] for item in read if isinstance(item, tuple)] for read in self.received()]


NUMBERS = list(range(100))


def test_by_key_group() -> None:
    link = Link(by(same)).send(NUMBERS, NUMBERS)
    for subtask, records in enumerate(link.records()):
        own = [n for n in NUMBERS if subtask_of_key_group(key_group_of(n, 128), 3, 128) == subtask]
        assert records == own + own


def test_a_key_selector_object_and_a_key_type() -> None:
    class Last(KeySelector):
        def get_key(self, value: Any) -> Any:
            return str(value)[-1]

    link = Link(by(Last())).send([12, 2, 302])
    assert [len(records) for records in link.records()].count(0) == 2, "all have one key"


class Level(enum.IntEnum):
    LOW = 1


def keys_sent(link: Link) -> list[list[Any]]:
    """The keys that travel beside the records, by destination."""
    link.writer.finish()
    sent: list[list[Any]] = [[], [], []]
    for row in link.rows:
        for _, _, keys in pickle.loads(row.payload):
            sent[row.dest] += keys
    return sent


@pytest.mark.parametrize(
    ("key_type", "records", "keys"),
    [
        (Types.LONG(), [5, -3, 2**40, 5], [5, -3, 2**40, 5]),
        (Types.LONG(), [5, Level.LOW, 5], [5, 1, 5]),
        (Types.STRING(), ["a", "b", "a"], ["a", "b", "a"]),
        (Types.DOUBLE(), [1, 2.5, True], None),
        (Types.INT(), [1, 2**31], None),
        (None, [1, True, 1.0, Level.LOW], [1, True, 1.0, Level.LOW]),
        (None, ["a", 1, "a"], ["a", 1, "a"]),
    ],
)
def test_keys_are_converted_and_equal_ones_meet(key_type: Any, records: list[Any], keys: list[Any] | None) -> None:
    partitioning = Hash(same, key_type)
    if keys is None:
        with pytest.raises(UserCodeError):
            Link(partitioning).send(records)
        return
    for turn in range(2):  # unknown keys, then known ones
        sent = keys_sent(Link(partitioning).send(*[records] * (turn + 1)))
        assert sorted(map(repr, (key for own in sent for key in own))) == sorted(map(repr, keys * (turn + 1)))
        for subtask, own in enumerate(sent):
            assert all(subtask_of_key_group(key_group_of(key, 128), 3, 128) == subtask for key in own)


def test_keys_that_cannot_be_hashed() -> None:
    link = Link(by(lambda record: tuple(record))).send([[1, 2], [1, 2]])
    assert sorted(map(len, link.records())) == [0, 0, 2]


def test_rebalance_is_even() -> None:
    link = Link(Rebalance()).send(NUMBERS)
    records = link.records()
    assert sorted(n for part in records for n in part) == NUMBERS
    assert sorted(map(len, records)) == [33, 33, 34]


@pytest.mark.parametrize(
    ("upstream", "downstream", "shares"),
    [(2, 4, [{0, 1}, {2, 3}]), (4, 2, [{0}, {0}, {1}, {1}]), (2, 3, [{0, 1}, {2}]), (3, 2, [{0}, {0}, {1}])],
)
def test_rescale_stays_in_its_share(upstream: int, downstream: int, shares: list[set[int]]) -> None:
    for subtask, share in enumerate(shares):
        records = Link(Rescale(), upstream, downstream, subtask).send(NUMBERS).records()
        assert {i for i, part in enumerate(records) if part} == share
        assert sorted(n for part in records for n in part) == NUMBERS


def test_every_destination_has_an_upstream_when_rescaled() -> None:
    for upstream in range(1, 7):
        for downstream in range(1, 7):
            reached = set()
            for subtask in range(upstream):
                records = Link(Rescale(), upstream, downstream, subtask).send(NUMBERS).records()
                reached |= {i for i, part in enumerate(records) if part}
            assert reached == set(range(downstream))


def test_broadcast_reaches_all() -> None:
    assert Link(Broadcast()).send(NUMBERS).records() == [NUMBERS] * 3


def test_forward_goes_to_its_own_number() -> None:
    program = Program()
    source = program.source()
    deep = program.map((source, by(same)))
    program.collect(deep, (source, Forward()))
    plan = program.plan(parallelism=3)
    edge = next(e for e in plan.edges.values() if e.exchange and isinstance(e.partitioning, Forward))
    rows: list[WireRow] = []
    writer = make_writer(edge, plan.nodes[1], plan.nodes[3], 2)
    writer.begin(1, rows.append)
    writer.records([1, 2], None)
    writer.finish()
    assert [row.dest for row in rows] == [2]


@pytest.mark.parametrize("partitioning", [Shuffle(), Rebalance(), Rescale()])
def test_free_choices_are_repeated_by_a_re_run_and_differ_between_steps(partitioning: Partitioning) -> None:
    link = Link(partitioning)
    first = link.begin(7).send(NUMBERS[:50]).records()
    assert link.begin(7).send(NUMBERS[:50]).records() == first
    assert Link(partitioning).begin(7).send(NUMBERS[:50]).records() == first
    others = [link.begin(step).send(NUMBERS[:50]).records() for step in range(20)]
    assert any(other != first for other in others)


class Modulo(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return int(key % num_partitions)


def test_custom_partitioners() -> None:
    assert Link(Custom(Modulo(), lambda n: n + 1)).send([0, 1, 2, 3]).records() == [[2], [0, 3], [1]]
    assert Link(Custom(lambda key, n: 1, same)).send([5]).records() == [[], [5], []]


@pytest.mark.parametrize("chosen", [3, -1, "1", None, 1.0])
def test_a_custom_partitioner_must_choose_a_partition(chosen: Any) -> None:
    link = Link(Custom(lambda key, n: chosen, same))
    with pytest.raises(UserCodeError) as raised:
        link.send([5])
    assert f"the partitioner chose {chosen!r} of 3 partitions" in str(raised.value)
    assert (raised.value.operator, raised.value.record) == ("partition_custom before out", 5)


def test_an_error_in_a_key_selector_names_the_record() -> None:
    with pytest.raises(UserCodeError) as raised:
        Link(by(lambda n: 1 // n)).send([2, 0])
    assert (raised.value.operator, raised.value.record) == ("key_by before out", 0)


def test_control_goes_everywhere_between_the_records() -> None:
    link = Link(Rebalance(), downstream=2).send([1, 2], 10, [3, 4], IDLE, 20)
    for read in link.received():
        kinds = ["record" if isinstance(item, tuple) else item for item in read]
        assert kinds == ["record", 10, "record", IDLE, 20]


def test_timestamps_stay_with_their_records() -> None:
    link = Link(by(same), downstream=2).send([1, 2], ([3, 4, 5], [30, 40, 50]), [6], ([7], [70]), 99, ([8], [80]))
    pairs = [item for read in link.received() for item in read if isinstance(item, tuple)]
    assert sorted(pairs) == [(1, None), (2, None), (3, 30), (4, 40), (5, 50), (6, None), (7, 70), (8, 80)]


def counts(link: Link) -> list[int]:
    return [sum(len(s[0]) for s in pickle.loads(row.payload) if isinstance(s, tuple)) for row in link.rows]


def test_chunks_are_cut_by_count() -> None:
    link = Link(by(same), downstream=1)
    for start in range(0, 20_000, 1000):
        link.send(list(range(start, start + 1000)))
    assert link.records() == [list(range(20_000))]
    assert counts(link) == [5000] * 4
    assert [row.seq for row in link.rows] == [0, 1, 2, 3]


def test_watermarks_between_records_do_not_hold_chunks_back() -> None:
    link = Link(by(same), downstream=1)
    for number in range(200):
        link.send([number] * 100, number)
    assert len(link.rows) == 4, "they leave as they come"
    assert len(link.records()[0]) == 20_000
    assert max(counts(link)) <= 4200


@pytest.mark.parametrize("batch", [10, 100, 4096])
def test_chunks_are_cut_by_bytes(batch: int) -> None:
    link = Link(by(lambda text: text[:4]), downstream=1)
    texts = [f"{number:04}" + "x" * 20_000 for number in range(500)]
    for start in range(0, 500, batch):
        link.send(texts[start : start + batch])
    assert link.records() == [texts]
    sizes = [len(row.payload) for row in link.rows]
    assert max(sizes) <= 2.1 * (1 << 20)
    assert len(sizes) <= 14
    assert link.writer.sent_bytes == sum(sizes)


elements = st.lists(
    st.one_of(
        st.lists(st.integers(0, 50), max_size=12),
        st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=12).map(
            lambda pairs: tuple(map(list, zip(*pairs, strict=True)))
        ),
        st.integers(0, 99),
        st.just(IDLE),
    ),
    max_size=10,
)


@given(elements, st.sampled_from([Hash(same, None), Rebalance(), Shuffle(), Broadcast()]), st.integers(1, 5))
def test_what_is_sent_is_what_is_read(what: list[Any], partitioning: Partitioning, limit: int) -> None:
    """However small the chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer_module, "_CHUNK_RECORDS", limit)
        link = Link(partitioning).send(*what)
        received = link.received()
        if not isinstance(partitioning, Broadcast):
            assert all(count <= 12 + limit for count in counts(link))
    control = [item for item in what if not isinstance(item, list | tuple)]
    sent: list[Any] = []
    for item in what:
        if isinstance(item, list):
            sent += [(record, None) for record in item]
        elif isinstance(item, tuple):
            sent += zip(*item, strict=True)
    for read in received:
        assert [item for item in read if not isinstance(item, tuple)] == control
    read = [item for part in received for item in part if isinstance(item, tuple)]
    copies = 3 if isinstance(partitioning, Broadcast) else 1
    assert sorted(read, key=repr) == sorted(sent * copies, key=repr)


def test_rows_gather_into_chunks_of_a_few_megabytes() -> None:
    buffer = RowBuffer()
    assert buffer.take() == []
    buffer.add(WireRow(1, 2, 3, -(1 << 61), 0, b"x"))
    assert not buffer.full
    buffer.add(WireRow(1, 2, 3, 5, 1, b"y" * (4 << 20)))
    assert buffer.full
    rows = buffer.take()
    assert not buffer.full
    [batch] = write_rows(iter([rows]))
    assert batch.schema == SCHEMA
    assert list(read_rows(iter([batch]))) == rows
    assert [row.seq for row in rows] == [-(1 << 61), 5]
    for _ in range(256):
        buffer.add(WireRow(1, 2, 3, 5, 1, b""))
    assert buffer.full
