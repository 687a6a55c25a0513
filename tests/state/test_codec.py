"""What a state value becomes, and what unpickling state may and may not resolve."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as dt
import enum
import os  # noqa: F401 - a job's module imports such things; state must not reach them through it
import pickle
import subprocess
import uuid
import zoneinfo
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from subprocess import Popen  # noqa: F401 - as above
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.api.windows.window import TimeWindow
from beadline.common import Row
from beadline.common.types import RowKind
from beadline.errors import SerializationError
from beadline.state import codec
from beadline.state.codec import Frozen, freeze, is_immutable, loads, register_state_class, thaw, trust

HERE = __name__


@pytest.fixture(autouse=True)
def trusts_nothing() -> Iterator[None]:
    modules, registered = set(codec._job_modules), set(codec._registered)
    trust((), ())
    codec._registered.clear()
    yield
    codec._job_modules.clear()
    codec._job_modules.update(modules)
    codec._registered.clear()
    codec._registered.update(registered)


@dataclasses.dataclass
class Order:
    item: str
    amount: list[int]

    class Line:
        pass


class Mood(enum.Enum):
    GOOD = 1


class Evil:
    def __reduce__(self) -> Any:
        return subprocess.check_output, (["true"],)


def helper(*_: Any) -> None:
    raise AssertionError("state called a function of the job")


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=6,
)


def holds_mutable(value: Any) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, tuple) and any(map(holds_mutable, value)))


@given(values)
def test_freezing_copies_what_can_change_and_shares_the_rest(value: Any) -> None:
    frozen = freeze(value)
    thawed = thaw(frozen)
    assert thawed == value
    assert is_immutable(value) == (not holds_mutable(value))
    if holds_mutable(value):
        assert type(frozen) is Frozen
        assert thawed is not value
        assert thaw(frozen) is not thawed
    else:
        assert frozen is value


PLAIN = [
    {1, 2}, frozenset({1}), bytearray(b"a"), collections.OrderedDict(a=1), collections.defaultdict(list, a=[1]),
    collections.deque([1], 3), collections.Counter("aab"), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc),
    dt.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC")), dt.timedelta(1), Decimal("1.5"), Fraction(1, 3),
    uuid.UUID(int=3), array.array("i", [1, 2]), Row(a=[1], b="x"), Row.of_kind(RowKind.DELETE, 1), TimeWindow(0, 5),
    range(3), slice(1, 2), 1 + 2j,
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_plain_data_needs_no_trust(value: Any) -> None:
    assert thaw(freeze(value)) == value


def test_numpy_values_are_plain_data() -> None:
    numpy = pytest.importorskip("numpy")
    copy = thaw(freeze([numpy.arange(3), numpy.float64(1.5)]))
    assert copy[0].tolist() == [0, 1, 2]
    assert copy[1] == 1.5


def by_name(module: str, name: str, *arguments: Any) -> bytes:
    """A pickle that calls whatever the name leads to."""
    short = b"\x8c" + bytes([len(module)]) + module.encode() + b"\x8c" + bytes([len(name)]) + name.encode() + b"\x93"
    return b"\x80\x05" + short + pickle.dumps(arguments, 5)[2:-1] + b"R."


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"), ("posix", "system"), ("subprocess", "Popen"), ("builtins", "eval"), ("builtins", "exec"),
        ("builtins", "__import__"), ("importlib", "import_module"), ("functools", "partial"),
        ("pickle", "loads"), ("cloudpickle.cloudpickle", "_make_function"), ("operator", "attrgetter"),
        ("beadline.state.codec", "loads_trusted"), ("beadline.connectors.files.place", "publish"),
        ("builtins", "list.__class__"), ("beadline.commonplace", "anything"),
    ],
)  # fmt: skip
def test_strangers_cannot_run_code(module: str, name: str) -> None:
    with pytest.raises(SerializationError, match=r"neither plain data nor a class that this job defines"):
        loads(by_name(module, name, "true"))


@pytest.mark.parametrize(
    "name",
    [
        "os.system", "subprocess.check_output", "Popen", "os", "helper", "Order.__init__", "Order.__class__",
        "Order.__init__.__builtins__.get", "Order.__init__.__globals__.get", "Order.__subclasses__",
    ],
)  # fmt: skip
def test_a_job_module_is_no_way_to_what_it_imports(name: str) -> None:
    trust([HERE], ())
    with pytest.raises(SerializationError, match="neither plain data"):
        loads(by_name(HERE, name, "true"))


@pytest.mark.parametrize("name", ["Row.__init__.__builtins__.get", "itemgetter", "annotations"])
def test_our_own_modules_are_no_way_either(name: str) -> None:
    with pytest.raises(SerializationError):
        loads(by_name("beadline.common.types", name, "true"))


def test_attributes_are_not_looked_up_for_strangers() -> None:
    for owner, name in (("text", "_unpickle"), (zoneinfo.ZoneInfo, "__subclasses__")):
        data = by_name("builtins", "getattr", owner, name)
        with pytest.raises(SerializationError, match=r"calls builtins\.getattr with arguments that no value has"):
            loads(data)
        with pytest.raises(SerializationError, match=f"the attribute '{name}' of"):
            codec.loads_own(data)


def test_an_object_that_pickles_as_a_call_is_refused() -> None:
    with pytest.raises(SerializationError, match="check_output"):
        loads(pickle.dumps(Evil()))


@pytest.mark.parametrize("value", [Order("a", [1]), Mood.GOOD, (1, Order("b", []))])
def test_classes_of_the_jobs_modules_are_trusted(value: Any) -> None:
    frozen = freeze(value)
    with pytest.raises(SerializationError, match=r"beadline\.register_state_class\((Order|Mood)\)"):
        thaw(frozen)
    trust([HERE], ())
    assert thaw(frozen) == value


def test_a_package_trusts_its_modules_but_not_its_namesakes() -> None:
    trust(["tests.sta"], ())
    assert not codec.is_trusted("tests.state.x", "A")
    trust(["tests.state"], ())
    assert codec.is_trusted("tests.state.x", "A")


def test_nested_classes_are_found() -> None:
    trust([HERE], ())
    assert isinstance(thaw(freeze(Order.Line())), Order.Line)


def test_registered_classes_are_trusted_one_by_one() -> None:
    register_state_class(Order)
    assert codec.registered_state_classes() == {(HERE, "Order")}
    assert thaw(freeze(Order("a", [1]))) == Order("a", [1])
    with pytest.raises(SerializationError):
        thaw(freeze(Mood.GOOD))


def test_trust_replaces_modules_and_adds_classes() -> None:
    trust([HERE], [("x", "A")])
    trust(["other"], [("y", "B")])
    assert not codec.is_trusted(HERE, "Order")
    assert codec.is_trusted("x", "A")
    assert codec.is_trusted("y", "B")
    assert codec.is_trusted("__main__", "Anything")


def test_what_cannot_be_pickled_is_named() -> None:
    with pytest.raises(SerializationError, match="a state value of type generator can't be pickled"):
        freeze(number for number in range(3))
