"""A snapshot is data: pickles that somebody made by hand are refused with a sentence, whatever they would do."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import datetime as dt
import enum
import io
import json
import pickle
import resource
import subprocess
import uuid
import zoneinfo
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy
import pytest
import xxhash

from beadline.api.windows.window import CountWindow, GlobalWindow, TimeWindow
from beadline.common import Duration, Instant, Row, RowKind, Time
from beadline.errors import SerializationError, VersionError
from beadline.state import codec
from beadline.state.codec import dumps, freeze, loads, loads_own, thaw, thaw_as_written, trust
from beadline.state.key_groups import BoxedKey
from beadline.state.parquet.values import as_kept
from beadline.state.segments.segment import TableChanges, decode_segment, encode_segment
from tests.state.pickle_programs import MEMOIZE, Op, build, call, in_child, name, new, plain, program

HERE = __name__
TYPES = "beadline.common.types"
WINDOW = "beadline.api.windows.window"


@pytest.fixture(autouse=True)
def trusts_this_module() -> Iterator[None]:
    modules, registered = set(codec._job_modules), set(codec._registered)
    trust([HERE], ())
    yield
    codec._job_modules.clear()
    codec._job_modules.update(modules)
    codec._registered.clear()
    codec._registered.update(registered)


@dataclasses.dataclass
class Order:
    item: str
    next: Any = None


class Visit(NamedTuple):
    page: str
    seen: int


class Plain:
    def __init__(self, total: int = 0) -> None:
        self.total = total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.total == other.total

    def __hash__(self) -> int:
        return hash(self.total)


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: Any) -> None:
        self.a = a

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.a == other.a

    def __hash__(self) -> int:
        return hash(self.a)


class Celsius:
    """Says itself how it is pickled."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __reduce__(self) -> Any:
        return Celsius, (self.degrees,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and self.degrees == other.degrees

    def __hash__(self) -> int:
        return hash(self.degrees)


class Mood(enum.Enum):
    GOOD = 1
    BAD = 2


class Names(list[str]):
    pass


class Log(io.FileIO):
    """Opens a file when it is called."""


class Command(subprocess.Popen[bytes]):
    """Starts a process when it is called."""


class Array(numpy.ndarray):
    pass


class Pointer(ctypes.Structure):
    _fields_ = (("text", ctypes.c_char_p),)


class Kind(type):
    pass


def dtype(text: str, *state: Any) -> Op:
    whole = state or (3, "|", None, None, None, -1, -1, 0)
    return Op(call("numpy", "dtype", text, False, True), build(whole))


def tower(bottom: bytes, level: bytes, height: int) -> bytes:
    return bottom + level * height


def doubled(times: int) -> bytes:
    """A tuple of a tuple twice, and so on."""
    return plain(()) + MEMOIZE + b"".join(b"j" + i.to_bytes(4, "little") + b"\x86" + MEMOIZE for i in range(times))


def frozen_often(times: int) -> bytes:
    data = b"N"
    for _ in range(times):
        data = new("beadline.state.codec", "Frozen", program(data))
    return data


OUTSIDE = (3, "|", None, ("a",), {"a": (dtype("u8"), 1 << 20)}, 8, 1, 0)
ATTACKS: dict[str, bytes] = {
    # memory
    "objects over bytes": call(
        "builtins", "list", Op(call("numpy", "ndarray", (1,), Op(call("numpy", "dtype", "O")), b"A" * 8))
    ),
    "objects over bytes, as numpy writes arrays": call(
        "numpy._core.numeric", "_frombuffer", b"A" * 8, dtype("O8", 3, "|", None, None, None, -1, -1, 63), (1,), "C"
    ),
    "objects over bytes, in two moves": (
        call("numpy._core.multiarray", "_reconstruct", Op(name("numpy", "ndarray")), (0,), b"b")
        + build((1, (1,), dtype("O8", 3, "|", None, None, None, -1, -1, 63), False, b"A" * 8))
    ),
    "objects over bytes, our own way": call("beadline.state.arrays", "array_of", "|O", (1,), "C", b"A" * 8),
    "objects in fields": call(
        "beadline.state.arrays", "array_of", ("fields", (("a", "|O", 0),), 8, False), (1,), "C", b"A" * 8
    ),
    "a field outside of its item": call("numpy", "dtype", "V8", False, True) + build(OUTSIDE),
    "a field outside of its item, our own way": call(
        "beadline.state.arrays", "type_of", ("fields", (("a", "<u8", 1 << 20),), 8, False)
    ),
    "a negative offset": call("beadline.state.arrays", "type_of", ("fields", (("a", "<u8", -8),), 8, False)),
    "more items than bytes": call("beadline.state.arrays", "array_of", "<i8", (1 << 40,), "C", b"A" * 8),
    "less bytes than items": call("beadline.state.arrays", "array_of", "<i8", (3,), "C", b"A" * 8),
    "items without bytes": call("beadline.state.arrays", "array_of", "|V0", (1 << 40,), "C", b""),
    "a type of another syntax": call("beadline.state.arrays", "type_of", "i4,(1000000000,)f8"),
    "text that is no text": call("beadline.state.arrays", "array_of", "<U1", (1,), "C", b"\xff" * 4),
    "a subclass of an array": new(HERE, "Array", (1,), "O", b"A" * 8),
    "a structure of pointers": new(HERE, "Pointer") + build(({}, b"A" * 8)),
    "a new class": new(HERE, "Kind", "X", (Op(name(HERE, "Plain")),), {}),
    # classes and functions
    "an attribute of a class of ours": name(TYPES, "Row") + build((None, {"__eq__": Op(name("builtins", "list"))})),
    "an attribute of the job's class": name(HERE, "Order") + build((None, {"item": 1})),
    "an attribute of a function": name(TYPES, "new_row") + build((None, {"__defaults__": (1, 2)})),
    "an attribute of a plain class": name("decimal", "Decimal") + build((None, {"x": 1})),
    "an item of a class": name(HERE, "Order") + plain(1) + plain(2) + b"s",
    "an element of a function": name(TYPES, "new_row") + plain(1) + b"a",
    "the content of an enumeration": call(HERE, "Mood", 1) + build({"_value_": 5}),
    "a member of an enumeration": new(HERE, "Mood", 1) + build({"_value_": 5}),
    "the kind of a row": call(TYPES, "RowKind", 0) + build({"_value_": 5}),
    "another class": new(HERE, "Slotted") + build((None, {"__class__": Op(name(HERE, "Plain"))})),
    "another class, in a named tuple": new(HERE, "Slotted") + build(
        Op(call("beadline.state.named", "tuple_of", Op(name(HERE, "Visit")), ("page", "seen"),
                (None, {"__class__": Op(name(HERE, "Plain"))})))
    ),
    "a class of ours outside of the list": call("beadline.common.configuration", "Configuration"),
    "a function of ours": call("beadline.common._types.basic", "basic_type_info", "LONG"),
    "a window assigner": new("beadline.api.windows.assigners", "GlobalWindows"),
    # constructors
    "a file of the job": call(HERE, "Log", "/tmp/opened-by-a-pickle", "w"),
    "a process of the job": call(HERE, "Command", ["touch", "/tmp/started-by-a-pickle"]),
    "a constructor that pickle does not call": call(HERE, "Plain", 5),
    "arguments that pickle does not give": new(HERE, "Plain", 5),
    "a list of a range": call("builtins", "list", range(1 << 40)),
    "many bytes": call("builtins", "bytes", 1 << 40),
    "a large bytearray": call("builtins", "bytearray", 1 << 40),
    "a number of a text": call("builtins", "int", "5"),
    "another tuple": new("builtins", "tuple", [1]),
    "another set": new("builtins", "set", [1]),
    "an exponent without end": call("decimal", "Decimal", "1e999999999"),
    "a fraction without end": call("fractions", "Fraction", "1e999999999"),
    "no fraction": call("fractions", "Fraction", 1, 0),
    "a day that is none": call("datetime", "date", b"\x07\xe8\x02\x1f"),
    "an hour that is none": call("datetime", "datetime", b"\x07\xe8\x02\x01\x19\x00\x00\x00\x00\x00"),
    "a minute that is none": call("datetime", "time", b"\x01\x63\x00\x00\x00\x00"),
    "a time zone that is none": call("datetime", "timezone", Op(call("datetime", "timedelta", 5, 0, 0))),
    "a length of time without end": call("datetime", "timedelta", 1 << 60, 0, 0),
    "a zone in another place": Op(
        call("builtins", "getattr", Op(name("zoneinfo", "ZoneInfo")), "_unpickle"), plain(("../../etc/passwd", True)),
        b"R",
    ).code,
    "a number that is no UUID": new("uuid", "UUID") + build({"int": "x"}),
    "half a UUID": new("uuid", "UUID"),
    "a window of texts": new(WINDOW, "TimeWindow") + build((None, {"start": "a", "end": "b"})),
    "a window with more": new(WINDOW, "TimeWindow") + build((None, {"start": 1, "end": 2, "max_timestamp": 3})),
    "half a window": new(WINDOW, "TimeWindow"),
    "a row whose values are none": call(TYPES, "new_row", 5, None),
    "a row whose names are none": call(TYPES, "new_row", [1], [[]]),
    "a box without its key": call("beadline.state.key_groups", "BoxedKey", [1], "x"),
    "a dataclass without fields": call("beadline.state.named", "blank", Op(name(HERE, "Order")), ("item", "next")),
    "fields of another class": call("beadline.state.named", "fill", Op(name(HERE, "Order")), (("item",), (1,))),
    "a frozen value that is none": new("beadline.state.codec", "Frozen", "text"),
    "an attack that is frozen": new(
        "beadline.state.codec", "Frozen", program(name(TYPES, "Row") + build((None, {"__eq__": 1})))
    ),
    "frozen many times": frozen_often(20),
    # the machine
    "a memo without end": b"]r\xff\xff\xff\x7f",
    "a memo of an earlier protocol": b"]q\x00",
    "a length without end": b"\x8e" + b"\xff" * 7 + b"\x7f",
    "a buffer without end": b"\x96" + b"\xff" * 6 + b"\x00\x00",
    "a text without end": b"\x8d" + b"\xff" * 8,
    "a buffer of somebody": b"\x97",
    "a persistent name": b"]Q",
    "an extension": b"\x82\x01",
    "an instance of old": b"(iposix\nsystem\n",
    "a number as text": b"I5\n",
    "nothing": b"",
    "too many marks": b"(((N",
    "two values": b"NN",
    "an opcode that is none": b"\xff",
    "less on the stack than taken": b"N\x86",
    "less since the mark than taken": b"N(N\x86",
    "deep tuples as a key": b"}" + tower(b")", b"\x85", 40_000) + b"Ns",
    "deep lists": b"]" * 40_001 + b"a" * 40_000,
    "a tuple of all tuples as a key": b"}" + doubled(200) + b"Ns",
    "a tuple of all tuples": doubled(200),
    "numbers of one hash": b"]" + b"".join(plain(i * ((1 << 61) - 1)) + b"a" for i in range(3, 2000)),
    "a list as a key": b"}]Ns",
    "text that is no UTF-8": b"\x8c\x02\xff\xff",
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused(attack: str) -> None:
    data = program(ATTACKS[attack])
    said = in_child(lambda: "\n".join(outcome(load, data) for load in WAYS.values())).splitlines()
    assert [line.partition(":")[0] for line in said] == ["refused"] * len(WAYS), said


def outcome(load: Callable[[bytes], Any], data: bytes) -> str:
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    before = state_of_classes()
    try:
        value = load(data)
    except (SerializationError, VersionError) as error:
        assert state_of_classes() == before, "a class was changed"
        return f"refused: {error}"
    return f"loaded: {value!r}"


def state_of_classes() -> Any:
    members = [dict(vars(cls)) for cls in (Row, Order, Plain, Slotted, Mood, TimeWindow, Decimal)]
    return members, Mood.GOOD.value, RowKind.INSERT.value, loads.__defaults__


def in_segment(data: bytes) -> Any:
    """As a whole block of a segment, with the right checksums."""
    return decode_segment(segment_of(data))


def segment_of(block: bytes, kind: str = "value", namespaced: bool = False) -> bytes:
    magic = b"BEADRUN1"
    entry = ["t", kind, namespaced, 0, 7, len(magic), len(block), 1, xxhash.xxh3_64_hexdigest(block)]
    footer = json.dumps({"max_parallelism": 8, "blocks": [entry]}).encode()
    return b"".join((magic, block, footer, xxhash.xxh3_64_digest(footer), len(footer).to_bytes(8, "big"), magic))


def frozen_in_segment(data: bytes) -> Any:
    segment = encode_segment({"t": TableChanges("value", False, {"k": codec.Frozen(data)})}, 8)
    return thaw(decode_segment(segment)["t"].changes["k"])


#: The ways by which pickles of somebody else come in.
WAYS: dict[str, Callable[[bytes], Any]] = {
    "loads": loads,
    "as written": lambda data: thaw_as_written(codec.Frozen(data)),
    "in a segment": in_segment,
    "frozen in a segment": frozen_in_segment,
    "in Parquet": lambda data: thaw(as_kept(data)),
}


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if attack.startswith(("objects", "a field", "a sub"))])
def test_numpy_cannot_be_reached_by_the_quick_way_either(attack: str) -> None:
    said = in_child(lambda: outcome(quick, program(ATTACKS[attack])))
    assert said.startswith(("refused: ", "raised ")), said


def quick(data: bytes) -> Any:
    try:
        return loads_own(data)
    except TypeError as error:
        raise SerializationError(str(error)) from error


def test_a_sentence_says_what_was_found_and_what_to_do() -> None:
    with pytest.raises(SerializationError) as caught:
        loads(program(ATTACKS["an attribute of a class of ours"]))
    assert str(caught.value) == (
        f"a pickle of {len(program(ATTACKS['an attribute of a class of ours']))} bytes is refused: it sets the "
        "attributes of something that is no new instance. State and output are data: nothing that Beadline writes is "
        "like this, so the file is damaged, or somebody has made it by hand. Use another checkpoint or savepoint"
    )


# -- what is data stays data

CIRCLE = Order("a")
CIRCLE.next = [CIRCLE]
VALUES: list[Any] = [
    None, True, 5, -5, 1 << 40, -(1 << 200), 1.5, float("inf"), "x" * 300, "\ud800", b"y" * 70_000, bytearray(b"z"),
    (), [[]] * 5, {"a": [1, {2}]}, {1, 2}, frozenset([frozenset([1])]), range(3), slice(1, None), 1 + 2j, object,
    collections.OrderedDict(a=1), collections.deque([1], 3), collections.Counter("ab"),
    collections.defaultdict(list, a=[1]), collections.defaultdict(Decimal), collections.defaultdict(Plain),
    dt.date.max, dt.datetime(2024, 10, 27, 2, 30, fold=1), dt.time(1, 2, fold=1), dt.timedelta(-1, 3, 4),
    dt.time(1, tzinfo=dt.timezone.utc), dt.timezone(dt.timedelta(hours=1), "x"),
    dt.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")), zoneinfo.ZoneInfo("UTC"),
    Decimal("1.50"), Decimal("-Infinity"), Fraction(1, 3), uuid.UUID(int=5),
    uuid.UUID(int=3, is_safe=uuid.SafeUUID.unsafe), Row(a=[1], b="x"), Row.of_kind(RowKind.DELETE, 1), RowKind.INSERT,
    TimeWindow(0, 5), CountWindow(3), GlobalWindow(), Duration.of_seconds(1), Instant(1, 2), Time.seconds(1),
    BoxedKey([1], b"l"), Order("a", Order("b")), Visit("x", 3), Plain(3), Slotted([1]), Celsius(3.5), Mood.GOOD,
    Names(["a"]), freeze([1]),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("write", [lambda value: freeze([value]), dumps], ids=["freeze", "dumps"])
def test_data_passes(value: Any, write: Callable[[Any], bytes]) -> None:
    for load in (loads, loads_own, lambda data: thaw_as_written(codec.Frozen(data))):
        found = load(write([value]))
        while isinstance(found, list) and len(found) == 1 and type(found) is list and found != [value]:
            found = found[0]
        assert found == [value]
        assert type(found[0]) is type(value)


def test_circles_and_what_is_there_twice_pass() -> None:
    found = loads(freeze([CIRCLE]))[0]
    assert found.next[0] is found
    within: list[Any] = []
    within.append((within,))
    again = loads(dumps(within))
    assert again[0][0] is again
    shared = [1]
    both = loads(freeze([shared, shared]))
    assert both[0] is both[1]


ARRAYS: list[Any] = [
    numpy.arange(3), numpy.arange(6).reshape(2, 3).T, numpy.arange(10)[::2], numpy.arange(24).reshape(2, 3, 4)[:, 1],
    numpy.arange(24).reshape(2, 3, 4).transpose(1, 0, 2), numpy.array(5), numpy.zeros((2, 0)), numpy.zeros((), "V8"),
    numpy.arange(5, dtype=">f4"), numpy.ones(2, "c16"), numpy.ones(3, "f2"), numpy.array([True, False]),
    numpy.array(["ab", "héé"]), numpy.array([b"x"]), numpy.array(["a", None, [1]], object),
    numpy.array(["2020-01-01", "NaT"], "M8[us]"), numpy.array([5], "m8[25ms]"),
    numpy.zeros(3, [("a", "<i4"), ("b", "S3", (2,))]),
    numpy.zeros(2, numpy.dtype([("a", "u1"), ("b", "f8")], align=True)),
]  # fmt: skip
SCALARS: list[Any] = [
    numpy.float64(1.5), numpy.int8(3), numpy.bool_(True), numpy.datetime64("2020-01-01", "us"),
    numpy.timedelta64(25, "s"), numpy.str_("é"), numpy.bytes_(b"q"), numpy.void(b"abc"), numpy.longdouble(2),
    numpy.zeros(2, [("a", "i4")])[0], numpy.complex64(1j),
]  # fmt: skip
KINDS: list[Any] = [numpy.dtype("f8"), numpy.dtype(">i4"), numpy.dtype("M8[25ms]"), numpy.dtype([("a", "i4")])]


def old(value: Any) -> bytes:
    """As versions before wrote it: with the names of NumPy's own functions."""
    return pickle.dumps(value, 5)


@pytest.mark.parametrize("write", [freeze, old], ids=["now", "before"])
@pytest.mark.parametrize("value", [*ARRAYS, *SCALARS, *KINDS], ids=lambda value: repr(value)[:40])
def test_values_of_numpy_come_back(value: Any, write: Callable[[Any], bytes]) -> None:
    written = write([value, {"again": value}])
    if write is old and isinstance(value, numpy.ndarray):
        assert b"numpy" in written
    for load in (loads, loads_own, lambda data: thaw_as_written(codec.Frozen(data))):
        first, second = load(written)
        for found in (first, second["again"]):
            assert type(found) is type(value)
            if isinstance(value, numpy.dtype):
                assert found == value
            else:
                assert found.dtype == value.dtype
                assert found.shape == value.shape
                numpy.testing.assert_array_equal(found, value)


def test_old_names_of_numpy_are_read_too() -> None:
    """NumPy before version 2 names its functions otherwise."""
    written = old([numpy.float64(1.5), numpy.arange(3), numpy.array(["a"], object)])
    for new_name in (b"numpy._core.multiarray", b"numpy._core.numeric"):
        shorter = new_name.replace(b"_core", b"core")
        written = written.replace(bytes([len(new_name)]) + new_name, bytes([len(shorter)]) + shorter)
    start = 2 + 1  # the frame is shorter too
    written = written[:2] + b"\x95" + (len(written) - 11).to_bytes(8, "little") + written[start + 8 :]
    found = loads(written)
    assert found[0] == 1.5
    assert found[1].tolist() == [0, 1, 2]
    assert found[2].tolist() == ["a"]


def test_what_is_written_names_nothing_of_numpy() -> None:
    assert b"numpy" not in freeze([*ARRAYS, *SCALARS, *KINDS])


def test_an_array_does_not_share_its_memory_with_the_pickle() -> None:
    frozen = freeze([numpy.zeros(3)])
    found = thaw(frozen)[0]
    found[0] = 7
    assert thaw(frozen)[0].tolist() == [0, 0, 0]


# -- where bytes come from


def test_own_segments_are_read_without_looking_at_each_value() -> None:
    data = segment_of(dumps(([0], ["k"], [codec.Frozen(b"not looked at")])))
    assert decode_segment(data, own=True)["t"].changes == {"k": b"not looked at"}
    with pytest.raises(SerializationError, match="does not begin as a pickle"):
        decode_segment(data)


@pytest.mark.parametrize(
    ("kind", "namespaced", "rows"),
    [
        ("value", False, 5), ("value", False, ([0], ["k"])), ("value", False, ([0], ["k"], [1, 2])),
        ("value", False, (["x"], ["k"], [1])), ("value", True, ([0], ["k"], [1])), ("list", False, ([0], ["k"], [1])),
        ("map", False, ([0], ["k"], [(True, [], [])])), ("timer", False, ([0], ["k"], [1])),
        ("value", False, ([0], [[]], [1])),
    ],
)  # fmt: skip
def test_a_block_of_another_form_is_refused(kind: str, namespaced: bool, rows: Any) -> None:
    data = segment_of(dumps(rows), kind, namespaced)
    with pytest.raises(VersionError, match="is not well formed"):
        decode_segment(data)
