"""Snapshots that nobody wrote: pickles, segments, operator state and ``_metadata``, damaged and made up.

``python -m tests.state.fuzzing 100000`` tries so many inputs, in child processes: an input that ends one is found, and
so is one that opens a file, starts a process, imports a module, changes a class or takes a minute. What is left is what
a snapshot may do: be refused with a sentence, or be read.

Inputs follow from a seed and a number, so that each can be made again: ``python -m tests.state.fuzzing --again SEED N``
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime as dt
import enum
import json
import mmap
import os
import random
import resource
import signal
import sys
import time
import traceback
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy
import xxhash

from beadline.api.windows.window import TimeWindow
from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.common import Duration, Instant, Row, RowKind
from beadline.errors import BeadlineError
from beadline.graph.program import Program
from beadline.state import codec
from beadline.state.codec import Frozen, dumps, freeze, loads, loads_rows, thaw, thaw_as_written
from beadline.state.key_groups import BoxedKey
from beadline.state.operator.handles import LIST, OperatorStateHandle, StateContent, StateRef, decode, encode, read_ref
from beadline.state.parquet.values import as_kept
from beadline.state.segments.files import read_segment
from beadline.state.segments.segment import TableChanges, decode_segment, encode_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, checksum_of
from tests.state.pickle_programs import Op, build, call, name, new, plain, program

HERE = "tests.state.fuzzing"
PATIENCE = 60
BATCH = 2000
MEMORY = 4 << 30


# -- classes of a job


@dataclasses.dataclass
class Order:
    item: str = "a"
    next: Any = None


class Visit(NamedTuple):
    page: str
    seen: int


class Plain:
    def __init__(self, total: int = 0) -> None:
        self.total = total


class Slotted:
    __slots__ = ("a", "b")


class Mood(enum.Enum):
    GOOD = 1


class Reduced:
    def __init__(self, degrees: Any) -> None:
        self.degrees = degrees

    def __reduce__(self) -> Any:
        return Reduced, (self.degrees,)


def trap(*_: Any, **__: Any) -> Any:
    """A function of the job's module: no snapshot may call it."""
    _TRAPPED.append("trap")


_TRAPPED: list[str] = []
_WATCHED = (Row, RowKind, TimeWindow, Duration, Order, Visit, Plain, Slotted, Mood, Reduced, BoxedKey, Frozen)

VALUES: list[Any] = [
    {"a": [1, 2.5, None], "b": {"c": (1, "x")}}, [Order("a", Order("b")), Visit("x", 3), Plain(3), Mood.GOOD],
    Reduced(1),
    Row(a=[1], b="x"), Row.of_kind(RowKind.DELETE, 1), numpy.arange(6).reshape(2, 3), numpy.array(["ab"]),
    [numpy.float64(1.5), numpy.datetime64("2020-01-01", "us")], numpy.zeros(2, [("a", "<i4"), ("b", "S3")]),
    numpy.array(["a", None], object), collections.OrderedDict(a=1), collections.defaultdict(list, a=[1]),
    collections.deque([1], 3), collections.Counter("aab"), {1, 2}, frozenset({1}), bytearray(b"x"),
    [dt.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC")), dt.date(2024, 1, 1), dt.timedelta(1), dt.time(1, 2)],
    [Decimal("1.5"), Fraction(1, 3), uuid.UUID(int=5), 1 << 100, -5, "é" * 300, b"y" * 300], TimeWindow(0, 5),
    [Duration.of_seconds(1), Instant(1, 2)], BoxedKey([1], b"l"), range(3), slice(1, 2), 1 + 2j,
]  # fmt: skip


# -- inputs

_NAMES = [
    (HERE, "Order"), (HERE, "Visit"), (HERE, "Plain"), (HERE, "Slotted"), (HERE, "Mood"), (HERE, "Reduced"),
    (HERE, "trap"), (HERE, "os.system"), (HERE, "sys"), ("os", "system"), ("builtins", "eval"), ("builtins", "getattr"),
    ("builtins", "list"), ("builtins", "bytes"), ("builtins", "object"), ("numpy", "ndarray"), ("numpy", "dtype"),
    ("numpy._core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "scalar"), ("zoneinfo", "ZoneInfo"),
    ("numpy._core.numeric", "_frombuffer"), ("beadline.state.arrays", "array_of"), ("collections", "OrderedDict"),
    ("beadline.state.arrays", "type_of"), ("beadline.state.arrays", "scalar_of"), ("beadline.common.types", "Row"),
    ("beadline.common.types", "new_row"), ("beadline.common.types", "RowKind"), ("beadline.state.codec", "Frozen"),
    ("beadline.state.codec", "loads_trusted"), ("beadline.state.named", "blank"), ("beadline.state.named", "fill"),
    ("beadline.state.named", "tuple_of"), ("beadline.api.windows.window", "TimeWindow"), ("datetime", "datetime"),
    ("datetime", "date"), ("datetime", "timedelta"), ("datetime", "timezone"), ("decimal", "Decimal"),
    ("fractions", "Fraction"), ("uuid", "UUID"), ("collections", "deque"), ("collections", "defaultdict"),
    ("collections", "Counter"), ("array", "_array_reconstructor"), ("array", "array"), ("subprocess", "Popen"),
    ("beadline.state.key_groups", "BoxedKey"), ("functools", "partial"), ("copyreg", "_reconstructor"),
]  # fmt: skip
_ATOMS = [
    None, True, 0, 1, 3, -1, 255, 1 << 40, -(1 << 70), 1.5, "", "O", "|O", "<f8", "V8", "a", "item", "__class__",
    "__eq__", "_unpickle", "UTC", "1e5", b"", b"A", b"A" * 8, b"\x07\xe8\x02\x01" + b"\0" * 6, "C", "<", "|", "i",
]  # fmt: skip
_ATTRIBUTES = ["a", "item", "page", "__class__", "__eq__", "__defaults__", "_value_", "start", "int", "__dict__", "x"]
_OPCODES = bytes([*b"NJKMXBCG]}()tuaesRb0.1hjcqrQiIodp", *range(0x80, 0x98), 0x94, 0x94, 0x94, 0x93])


def made_up(chance: random.Random, depth: int = 0) -> Any:
    """A value, or opcodes in its place: mostly such as fit together."""
    turn = chance.random()
    if depth > 4 or turn < 0.35:
        return chance.choice(_ATOMS)
    items = [made_up(chance, depth + 1) for _ in range(chance.randrange(4))]
    if turn < 0.45:
        return tuple(items)
    if turn < 0.52:
        return items
    if turn < 0.58:
        return {chance.choice(["a", "item", "__class__", "int", "start", "end", "__dict__"]): item for item in items}
    place = chance.choice(_NAMES)
    code = chance.choice([name(*place), call(*place, *items), new(*place, *items), new(*place), call(*place, *items)])
    if chance.random() < 0.4:
        attributes = {chance.choice(_ATTRIBUTES): made_up(chance, depth + 2)}
        code += build(chance.choice([(None, attributes), attributes, made_up(chance, depth + 1)]))
    if chance.random() < 0.15:
        code += chance.choice([plain(1) + b"a", plain("a") + plain(1) + b"s", b"(" + plain(1) + b"e", b"0", b"\x94h\0"])
    return Op(code)


def pickle_of(chance: random.Random) -> bytes:
    """A pickle of one of four kinds: valid, damaged, put together of pieces that fit, and of any opcodes."""
    turn = chance.random()
    if turn < 0.45:
        data = _pickled(chance)
        for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 8))):
            data = damaged(chance, data)
        return data
    if turn < 0.9:
        data = program(plain(made_up(chance)))
        return damaged(chance, data) if chance.random() < 0.2 else data
    return program(bytes(chance.choice(_OPCODES) for _ in range(chance.randrange(1, 40))))


def _pickled(chance: random.Random) -> bytes:
    value = chance.choice(VALUES)
    if chance.random() < 0.3:
        value = [value, chance.choice(VALUES)]
    return bytes(freeze([value])) if chance.random() < 0.6 else dumps(value)


def damaged(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(2, max(3, len(data)))
    turn = chance.randrange(7)
    if turn == 0:
        return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    if turn == 1:
        return data[:at] + bytes([chance.choice(_OPCODES)]) + data[at + 1 :]
    if turn == 2:
        return data[:at] + data[at + chance.randrange(1, 9) :]
    if turn == 3:
        end = at + chance.randrange(1, 30)
        return data[:at] + data[at:end] + data[at:]
    if turn == 4:
        return data[:at] + bytes(chance.choice(_OPCODES) for _ in range(chance.randrange(1, 5))) + data[at:]
    if turn == 5:
        return data[:at] + plain(made_up(chance, 3)) + data[at:]
    other = _pickled(chance)
    return data[:at] + other[chance.randrange(2, len(other)) :]


def segment_of(chance: random.Random) -> bytes:
    """A segment with right checksums, of values that are wrong; or one that is damaged anywhere."""
    if chance.random() < 0.3:
        values = {f"k{i}": Frozen(pickle_of(chance)) for i in range(2)}
        return encode_segment({"t": TableChanges("value", False, values)}, 8)
    block = pickle_of(chance)
    if chance.random() < 0.3:
        rows: list[Any] = [[0, 1], ["a", "b"], [1, freeze([2])]]
        rows[chance.randrange(3)] = chance.choice(
            [5, [1], [[], []], [(1, 2), (3, 4)], [None, "x"], [(True, []), (False, {})]]
        )
        block = dumps(tuple(rows))
    kind = chance.choice(["value", "value", "list", "map", "timer", "x", None])
    magic = b"BEADRUN1"
    entry: list[Any] = ["t", kind, chance.random() < 0.2, 0, 7, len(magic), len(block), 1, checksum_of(block)]
    if chance.random() < 0.2:
        entry[chance.randrange(len(entry))] = chance.choice([None, -1, 1 << 70, "x", [], {}, True])
    index: Any = {"max_parallelism": 8, "blocks": [entry]}
    if chance.random() < 0.1:
        index[chance.choice(["blocks", "ttl", "codec"])] = chance.choice([None, 5, "lz4", "zstd", [], [[]], {"t": "x"}])
    footer = json.dumps(index).encode()
    whole = b"".join((magic, block, footer, xxhash.xxh3_64_digest(footer), len(footer).to_bytes(8, "big"), magic))
    return damaged(chance, whole) if chance.random() < 0.1 else whole


def operator_state_of(chance: random.Random) -> bytes:
    payload = pickle_of(chance)
    if chance.random() < 0.4:
        payload = dumps(
            (chance.choice(["list", "broadcast", "keyed-raw", "x"]), chance.choice([5, [1], [(1, 2)], [[]]]))
        )
    whole = b"".join((b"BEADOPS1", xxhash.xxh3_64_digest(payload), payload))
    return damaged(chance, whole) if chance.random() < 0.1 else whole


def metadata_of(chance: random.Random) -> bytes:
    """A ``_metadata`` whose checksum is right, in which some leaves or branches are others."""
    segment = segment_of(chance)
    state = encode(StateContent(LIST, [1, freeze([2])])) if chance.random() < 0.5 else operator_state_of(chance)
    operator = OperatorSnapshot(
        uid="u", name="n", parallelism=1, max_parallelism=8, locals=(pickle_of(chance),), position={"index": 5},
        keyed=(KeyedStateHandle("r", (SegmentRef("v", 1, len(segment), inline=segment),)),),
        operator_state=(OperatorStateHandle({"s": StateRef(LIST, (SegmentRef("w", 1, len(state), inline=state),))}),),
        committables={"a": [b"x", (1, 2)]}, parts={"p": {"watermark": 1, "idle": False, "own": pickle_of(chance)}},
    )  # fmt: skip
    whole = Snapshot(1, "job", "name", 3, 4, (operator,), program=Program("s", ("a",), "g"))
    data = metadata.encode(whole, "/nowhere/chk-1")
    content = json.loads(data)["snapshot"]
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        _change_somewhere(chance, content)
    rest = b'"snapshot": ' + json.dumps(content, indent=1).encode() + b"\n}\n"
    version = b'"format": 1,\n'
    digest = xxhash.xxh3_128_hexdigest(version + rest).encode()
    made = b'{\n"beadline": "snapshot",\n%b"checksum": "xxh3_128:%b",\n%b' % (version, digest, rest)
    return damaged(chance, made) if chance.random() < 0.1 else made


def _change_somewhere(chance: random.Random, content: Any) -> None:
    while True:
        places = list(content) if isinstance(content, dict) else list(range(len(content)))
        if not places:
            return
        place = chance.choice(places)
        if isinstance(content[place], dict | list) and chance.random() < 0.8:
            content = content[place]
            continue
        other = [None, -1, 1 << 70, 1.5, "x", "../../etc/passwd", [], {}, True, {"$bytes": "x"}, {"$dict": [[[], 1]]}]
        data = {"$bytes": base64.b64encode(pickle_of(chance)).decode()}
        content[place] = chance.choice([*other, data, {"$tuple": [1]}, {"$float": "nan"}, {"$float": "x"}])
        return


# -- what is done with them


def read_pickle(chance: random.Random) -> None:
    data = pickle_of(chance)
    how: Callable[[bytes], Any] = chance.choice(
        [loads, lambda data: thaw_as_written(Frozen(data)), lambda data: thaw(as_kept(data)), loads_rows]
    )
    used(how(data))


def read_a_segment(chance: random.Random) -> None:
    for table in decode_segment(segment_of(chance)).values():
        for slot, change in table.changes.items():
            used(slot)
            used(thaw(change))


def read_operator_state(chance: random.Random) -> None:
    for item in decode(operator_state_of(chance)).items:
        used(thaw(item))


def read_metadata(chance: random.Random) -> None:
    """As a restore does: metadata, then what operators load, then state."""
    held = metadata.decode(metadata_of(chance), "/nowhere/chk-1/_metadata")
    from beadline.master.upkeep.truth import check_pickles

    for operator in held.operators:
        check_pickles(operator)
        for handle in operator.keyed:
            for segment in handle.segments if handle is not None else ():
                decode_segment(read_segment(segment), segment.key_groups, own=segment.is_own)
        for states in operator.operator_state:
            for ref in states.states.values() if states is not None else ():
                read_ref(ref)


def used(value: Any) -> None:
    """A value is worth something only if it can be shown and copied like any other."""
    try:
        repr(value)
        freeze([value])
    except (BeadlineError, RecursionError):
        pass
    except (AttributeError, TypeError, ValueError):
        pass  # a class of the job that was given what it does not expect


READERS: list[tuple[float, Callable[[random.Random], None]]] = [
    (0.6, read_pickle), (0.8, read_a_segment), (0.9, read_operator_state), (1.0, read_metadata),
]  # fmt: skip


def one(seed: int, number: int) -> bool:
    """Try one input; True if it was read, False if it was refused."""
    chance = random.Random(f"{seed}-{number}")
    turn = chance.random()
    reader = next(reader for limit, reader in READERS if turn < limit)
    try:
        reader(chance)
    except BeadlineError as refusal:
        text = str(refusal)
        assert len(text) > 20, f"this is no sentence: {text!r}"
        return False
    return True


# -- children


class Tripped(BaseException):
    """An input did what none may do."""


_FORBIDDEN = (
    *("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "socket.", "ctypes.", "os.remove", "exec"),
    *("os.rename", "os.mkdir", "shutil.", "os.chmod", "os.unlink", "pty.", "webbrowser.", "compile"),
)


_MAY_BE_IMPORTED = {*sys.stdlib_module_names, "numpy", "beadline", "pyarrow", "tzdata", "tests"}


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or not (event in ("open", "import") or event.startswith(_FORBIDDEN)) or _of_import():
        return
    if event == "open":
        path, mode = str(arguments[0]), str(arguments[1] or "")
        if set(mode) & set("wax+") or ("zoneinfo" not in path and "tzdata" not in path):
            raise Tripped(f"opens {path} for {mode}")
    elif event == "import":
        if str(arguments[0]).partition(".")[0] not in _MAY_BE_IMPORTED:
            raise Tripped(f"imports {arguments[0]}")
    else:
        raise Tripped(f"does {event} {arguments}"[:300])


def _of_import() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


_watching = False


def _classes() -> Any:
    # copyreg notes the slots of a class in it.
    members = [{at: it for at, it in vars(cls).items() if at != "__slotnames__"} for cls in _WATCHED]
    return members, Mood.GOOD.value, [kind.value for kind in RowKind]


def run_batch(seed: int, first: int, count: int, progress: mmap.mmap) -> None:
    """In a child: try inputs one after the other. Notes each number before it is tried."""
    global _watching
    codec.trust([HERE], ())
    for value in VALUES:  # what is imported on first use
        thaw(freeze([value]))
        repr(value)
    with_limits = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, with_limits))
    sys.addaudithook(_watch)
    before, read = _classes(), 0
    for number in range(first, first + count):
        progress[:16] = number.to_bytes(8, "big") + read.to_bytes(8, "big")
        signal.alarm(PATIENCE)
        _watching = True
        try:
            read += one(seed, number)
        finally:
            _watching = False
            signal.alarm(0)
        assert not _TRAPPED, "a function of the job was called"
        assert _classes() == before, "a class was changed"
    progress[:16] = (first + count).to_bytes(8, "big") + read.to_bytes(8, "big")


def fuzz(seed: int, count: int, enough: int = 20) -> tuple[int, int, list[str]]:
    """Try inputs in children; gives how many were tried, how many of them were read, and what is wrong.

    :param enough: end when so many are wrong
    """
    tried, read = 0, 0
    wrong: list[str] = []
    progress = mmap.mmap(-1, 16)
    first, last = 0, count
    while first < last and len(wrong) < enough:
        batch = min(BATCH, last - first)
        progress[:16] = bytes(16)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run_batch(seed, first, batch, progress)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        at = int.from_bytes(progress[:8], "big")
        read += int.from_bytes(progress[8:16], "big")
        if status:
            signalled = os.WIFSIGNALED(status)
            how = signal.Signals(os.WTERMSIG(status)).name if signalled else "an error, see above"
            wrong.append(f"seed {seed}, input {at}: {how}")
            at += 1
        tried += at - first
        first = at
    return tried, read, wrong


def main() -> int:
    if sys.argv[1] == "--again":
        codec.trust([HERE], ())
        print("read" if one(int(sys.argv[2]), int(sys.argv[3])) else "refused")
        return 0
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    began = time.monotonic()
    tried, read, wrong = fuzz(seed, count)
    took = time.monotonic() - began
    print(f"seed {seed}: {tried} inputs in {took:.0f} s, {read} read, {tried - read} refused, {len(wrong)} wrong")
    for each in wrong:
        print(each)
    return bool(wrong)


if __name__ == "__main__":
    from tests.state import fuzzing

    sys.exit(fuzzing.main())
