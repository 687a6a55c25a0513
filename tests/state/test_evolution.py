"""State outlives changes of its type: classes by the names of their fields, declared types by rules and hooks."""

from __future__ import annotations

import collections
import datetime
import pickle
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.api.state_descriptors import StateMigration, ValueStateDescriptor
from beadline.common import Row
from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, TypeInformation, Types
from beadline.errors import SerializationError, TypeMismatchError
from beadline.state import codec
from beadline.state.codec import Frozen, freeze, thaw, thaw_as_written
from beadline.state.description import OPERATOR, StateDescription
from beadline.state.evolution import Incompatible, Verdict, class_names, compatible, converter, type_converter

SHOP = types.ModuleType("shop_of_tests")


@pytest.fixture(autouse=True)
def _shop() -> Iterator[None]:
    """A module of the job whose classes change."""
    sys.modules[SHOP.__name__] = SHOP
    before = set(codec._job_modules)
    codec.trust([SHOP.__name__, __name__.partition(".")[0], __name__], ())
    yield
    codec.trust(before, ())
    del sys.modules[SHOP.__name__]


def define(*fields: Any, name: str = "Item", **options: Any) -> Any:
    """A dataclass of the shop, in place of an earlier one of that name."""
    made = make_dataclass(name, fields, **options)
    made.__module__ = SHOP.__name__
    setattr(SHOP, name, made)
    return made


def define_tuple(names: str, defaults: list[Any] | None = None) -> Any:
    made = collections.namedtuple("Item", names, defaults=defaults, module=SHOP.__name__)  # type: ignore[misc]
    SHOP.Item = made  # type: ignore[attr-defined]
    return made


class Color(Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclass
class Node:
    name: str
    others: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fixed:
    a: Any
    b: Any = None


@dataclass
class Own:
    """Says itself how it is pickled."""

    a: int

    def __reduce__(self) -> Any:
        return Own, (self.a + 1,)


@dataclass
class Stated:
    a: int

    def __getstate__(self) -> Any:
        return {"a": self.a * 2}


class Noted(Point):
    """A named tuple with attributes of its own."""


@dataclass
class Empty:
    pass


# -- classes, by name

PLAIN = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.binary(max_size=5), st.sampled_from([Color.RED, int, Own(3)])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.builds(Fixed, inner, inner),
        st.builds(Node, st.text(max_size=3), st.lists(inner, max_size=3)),
        st.builds(Point, inner, inner),
        st.builds(Noted, inner, inner),
        st.builds(lambda v: Row(a=v, b=1), inner),
        st.builds(Empty),
    ),
)


@given(PLAIN)
def test_values_come_back_as_they_were(value: Any) -> None:
    plain = pickle.loads(pickle.dumps(value, 5))
    again = thaw(freeze(value))
    assert again == plain
    assert type(again) is type(plain)
    assert thaw(freeze(again)) == pickle.loads(pickle.dumps(plain, 5))


@given(st.dictionaries(st.text(max_size=3), st.lists(st.integers() | st.text(), max_size=3)))
def test_values_without_classes_are_pickled_as_ever(value: Any) -> None:
    assert freeze(value) == pickle.dumps(value, 5)


@given(
    old=st.lists(st.sampled_from("abcdef"), unique=True, min_size=1),
    new=st.lists(st.sampled_from("abcdef"), unique=True, min_size=1),
    kinds=st.tuples(st.booleans(), st.booleans()),
    slots=st.booleans(),
)
def test_fields_are_matched_by_name(old: list[str], new: list[str], kinds: tuple[bool, bool], slots: bool) -> None:
    before = define_tuple(" ".join(old)) if kinds[0] else define(*old, slots=slots)
    stored = freeze({"in": [before(*range(len(old)))]})
    if kinds[1] and kinds[0]:
        define_tuple(" ".join(new), ["default"] * len(new))
    else:
        define(*((name, Any, field(default_factory=lambda: "default")) for name in new))
    (found,) = thaw(stored)["in"]
    assert type(found) is SHOP.Item
    assert [getattr(found, n) for n in new] == [old.index(n) if n in old else "default" for n in new]


def test_a_new_field_without_default_is_an_error_that_names_it() -> None:
    stored = freeze(define("name", "price")("pen", 3))
    define("name", "vip")
    with pytest.raises(SerializationError, match=r"shop_of_tests\.Item.*\['name', 'price'\].*'vip'.*__migrate_state__"):
        thaw(stored)


def test_a_default_factory_makes_a_new_value_each_time() -> None:
    stored = freeze(define("name")("pen"))
    define("name", ("tags", list, field(default_factory=list)))
    assert thaw(stored).tags == []
    assert thaw(stored).tags is not thaw(stored).tags


def test_a_class_may_take_over() -> None:
    stored = freeze(define("name", "cents")("pen", 250))
    seen: list[dict[str, Any]] = []

    def migrate(cls: Any, fields: dict[str, Any]) -> Any:
        seen.append(fields)
        return cls(name=fields["name"].upper(), euros=fields["cents"] / 100)

    item = define("name", "euros")
    item.__migrate_state__ = classmethod(migrate)
    assert thaw(stored) == item("PEN", 2.5)
    assert seen == [{"name": "pen", "cents": 250}]
    assert thaw(freeze(item("cup", 1.0))) == item("cup", 1.0)
    assert len(seen) == 1, "values of the class as it is need no migration"
    item.__migrate_state__ = classmethod(lambda cls, fields: None)
    with pytest.raises(SerializationError, match="must give a Item, and gave None"):
        thaw(stored)


def test_circles_and_shared_parts_stay() -> None:
    first, second = Node("a"), Node("b")
    first.others += [second, first]
    second.others.append(first)
    again = thaw(freeze(first))
    assert again.others[1] is again
    assert again.others[0].others[0] is again


def test_attributes_beside_the_fields_stay() -> None:
    node, noted = Node("a"), Noted(1, 2)
    node.cached, noted.note = 7, "x"  # type: ignore[attr-defined]
    assert vars(thaw(freeze(node))) == {"name": "a", "others": [], "cached": 7}
    assert thaw(freeze(noted)).note == "x"


def test_attributes_beside_the_fields_are_dropped_where_there_is_no_place() -> None:
    item = define("name")("pen")
    item.cached = 7
    stored = freeze(item)
    assert thaw(stored).cached == 7
    assert thaw(stored) == item
    define("name", slots=True)
    assert thaw(stored).name == "pen"
    assert not hasattr(thaw(stored), "cached")


def test_classes_that_pickle_themselves_are_left_alone() -> None:
    assert thaw(freeze([Own(1)])) == [Own(2)]
    assert thaw(freeze([Stated(1)])) == [Stated(2)]


def test_half_made_instances_come_back_half_made() -> None:
    node = Node("a")
    del node.name
    assert vars(thaw(freeze(node))) == {"others": []}


def test_a_class_that_is_no_dataclass_any_more_is_an_error() -> None:
    stored = freeze([define("name")("pen")])
    SHOP.Item = type("Item", (), {"__module__": SHOP.__name__})  # type: ignore[attr-defined]
    with pytest.raises(SerializationError, match=r"shop_of_tests\.Item as a dataclass with the fields \['name'\]"):
        thaw(stored)
    define_tuple("name")
    with pytest.raises(SerializationError, match="it is a named tuple now"):
        thaw(stored)


def test_a_failed_pickle_leaves_nothing_behind() -> None:
    with pytest.raises(SerializationError, match="can't be pickled"):
        freeze([1, 2, lambda: None])
    assert thaw(freeze([3])) == [3]


def test_large_values() -> None:
    value = {"data": b"x" * 3_000_000, "text": "y" * 200_000, "node": Node("z")}
    assert thaw(freeze(value)) == value


def test_values_as_they_were_written() -> None:
    item = define("name", "price")
    stored = freeze([item("pen", 3), Point(1, 2)])
    assert thaw_as_written(stored) == [item("pen", 3), Point(1, 2)]
    define("name")
    assert thaw_as_written(stored) == [Row(name="pen", price=3), Point(1, 2)]
    del SHOP.Item  # type: ignore[attr-defined]
    assert thaw_as_written(stored) == [Row(name="pen", price=3), Point(1, 2)]
    assert thaw_as_written(7) == 7


def test_values_as_they_were_written_for_some_classes_only() -> None:
    """What a state's type does not name adapts itself when it is loaded."""
    define("name", "price", name="Other")
    stored = freeze([define("name", "price")("pen", 3), SHOP.Other("cup", 4)])  # type: ignore[attr-defined]
    define("name")
    other = define("name", ("more", int, 7), name="Other")
    only = frozenset({(SHOP.__name__, "Item")})
    assert thaw_as_written(stored, only) == [Row(name="pen", price=3), other("cup", 7)]
    assert thaw_as_written(stored) == [Row(name="pen", price=3), Row(name="cup", price=4)]
    del SHOP.Other  # type: ignore[attr-defined]
    with pytest.raises(SerializationError, match=r"shop_of_tests\.Other, which no longer exists"):
        thaw_as_written(stored, only)
    SHOP.Other = SHOP.Item  # type: ignore[attr-defined]
    assert thaw(stored) == [SHOP.Item("pen"), SHOP.Item("cup")]  # type: ignore[attr-defined]


def test_a_class_that_is_a_value_itself_is_not_replaced() -> None:
    stored = freeze([define("name")])
    del SHOP.Item  # type: ignore[attr-defined]
    with pytest.raises(SerializationError, match=r"state refers to shop_of_tests\.Item"):
        thaw_as_written(stored)


def test_values_as_they_were_written_run_nothing_of_strangers() -> None:
    with pytest.raises(SerializationError, match=r"state refers to posix\.system"):
        thaw_as_written(Frozen(b"\x80\x05cposix\nsystem\n\x8c\x04true\x85R."))
    with pytest.raises(SerializationError, match=r"state refers to subprocess\.Popen"):
        thaw_as_written(Frozen(b"\x80\x05csubprocess\nPopen\n\x8c\x04true\x85\x81."))


# -- declared types


def described(info: TypeInformation | None, **more: Any) -> StateDescription:
    return StateDescription("s", more.pop("kind", "value"), type_to_text(info) if info else "", **more)


def named(**fields: TypeInformation) -> TypeInformation:
    return Types.ROW_NAMED(list(fields), list(fields.values()))


STRING, INT, LONG, DOUBLE = Types.STRING(), Types.INT(), Types.LONG(), Types.DOUBLE()
LOCAL = LocalTimeTypeInfo.TimeType

ALIKE = [
    (Types.BYTE(), Types.SHORT()),
    (Types.INT(), Types.BIG_INT()),
    (Types.FLOAT(), DOUBLE),
    (Types.CHAR(), STRING),
    (Types.SQL_DATE(), LocalTimeTypeInfo(LOCAL.LOCAL_DATE)),
    (Types.LIST(INT), Types.LIST(LONG)),
    (Types.MAP(STRING, INT), Types.MAP(STRING, LONG)),
    (ExternalTypeInfo(INT), LONG),
    (named(a=INT), named(a=LONG)),
    (Types.ROW([INT]), Types.ROW([LONG])),
    (Types.TUPLE([INT]), Types.TUPLE([LONG])),
    (named(a=INT), None),
    (None, None),
]

CONVERTED: list[tuple[TypeInformation | None, TypeInformation, Any, Any]] = [
    (INT, DOUBLE, 3, 3.0),
    (LONG, Types.BIG_DEC(), 3, Decimal(3)),
    (named(a=INT, b=STRING), named(b=STRING, c=LONG, a=LONG), Row(a=1, b="x"), Row(b="x", c=None, a=1)),
    (named(a=INT), named(a=DOUBLE), Row(a=1), Row(a=1.0)),
    (named(a=INT), named(a=DOUBLE), Row(a=None), Row(a=None)),
    (named(_a=INT, as_dict=INT), named(as_dict=INT), Row(_a=1, as_dict=2), Row(as_dict=2)),
    (Types.ROW([INT, STRING]), Types.ROW([DOUBLE]), Row(f0=1, f1="x"), Row(f0=1.0)),
    (Types.ROW([INT]), Types.ROW([INT, STRING]), Row(f0=1), Row(f0=1, f1=None)),
    (Types.ROW([INT]), named(age=INT), Row(f0=1), Row(age=1)),
    (Types.TUPLE([INT, STRING]), Types.TUPLE([DOUBLE]), (1, "x"), (1.0,)),
    (Types.LIST(INT), Types.LIST(DOUBLE), [1, None], [1.0, None]),
    (Types.OBJECT_ARRAY(named(a=INT)), Types.OBJECT_ARRAY(named(b=INT)), [Row(a=1)], [Row(b=None)]),
    (Types.MAP(STRING, INT), Types.MAP(STRING, DOUBLE), {"a": 1, "b": None}, {"a": 1.0, "b": None}),
    (None, Types.LIST(INT), (1, 2), [1, 2]),
    (None, named(a=INT), {"a": 1}, Row(a=1)),
    (Types.CLASS(Point), named(y=LONG, z=LONG), Point(1, 2), Row(y=2, z=None)),
    (named(x=INT), Types.CLASS(Point), Row(x=1), Point(1, 0)),
    (None, Types.CLASS(Point), Row(x=1), Point(1, 0)),
]

REFUSED: list[tuple[TypeInformation, TypeInformation, str]] = [
    (LONG, INT, "LONG can't become INT"),
    (LONG, DOUBLE, "LONG can't become DOUBLE"),
    (STRING, INT, "STRING can't become INT"),
    (Types.SQL_DATE(), Types.SQL_TIMESTAMP(), "SQL_DATE can't become SQL_TIMESTAMP"),
    (named(a=INT), named(a=STRING), "field 'a': INT can't become STRING"),
    (named(a=Types.LIST(LONG)), named(a=Types.LIST(INT)), "field 'a': an element: LONG can't become INT"),
    (Types.TUPLE([INT]), Types.TUPLE([INT, INT]), "its new field f1"),
    (Types.ROW([INT, STRING]), Types.ROW([STRING, INT]), "field f0: INT can't become STRING"),
    (Types.MAP(INT, INT), Types.MAP(LONG, INT), "keys of a map can't change their type, from INT to LONG"),
    (named(y=INT), Types.CLASS(Point), "field 'x' of Point is new and has no default"),
    (Types.ROW([INT]), Types.CLASS(Point), "no names in common"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PRIMITIVE_ARRAY(INT), "can't become"),
    (Types.LIST(INT), Types.TUPLE([INT]), r"LIST<INT> can't become TUPLE<INT>"),
]


@pytest.mark.parametrize(("old", "new"), ALIKE)
def test_alike(old: TypeInformation | None, new: TypeInformation | None) -> None:
    verdict = compatible(described(old), described(new))
    assert not verdict.refusal
    assert not verdict.migrate
    assert converter(described(old), described(new)) is None


@pytest.mark.parametrize(("old", "new", "value", "expected"), CONVERTED)
def test_converted(old: TypeInformation | None, new: TypeInformation, value: Any, expected: Any) -> None:
    verdict = compatible(described(old), described(new))
    assert not verdict.refusal
    assert verdict.migrate
    assert verdict.reason
    convert = converter(described(old), described(new))
    assert convert is not None
    made = convert(thaw(freeze(value)))
    assert made == expected
    assert type(made) is type(expected)
    if isinstance(made, Row):
        assert made._fields == expected._fields
    assert convert(None) is None
    check = new.held().converter()
    assert check is not None
    assert check(made) == made


@pytest.mark.parametrize(("old", "new", "why"), REFUSED)
def test_refused(old: TypeInformation, new: TypeInformation, why: str) -> None:
    verdict = compatible(described(old), described(new))
    assert not verdict.migrate
    assert why in verdict.refusal
    assert "migrate_from" in verdict.refusal
    with pytest.raises(Incompatible):
        converter(described(old), described(new))


def test_a_class_that_changes_as_its_type_goes_is_refused() -> None:
    old = described(Types.CLASS(define(("name", str))))
    assert not compatible(old, described(None)).refusal
    define(("name", str), ("price", int))
    assert "shop_of_tests.Item has changed or is gone" in compatible(old, described(None)).refusal
    hook = StateMigration(named(name=STRING), lambda row: row.name)
    assert compatible(old, described(None), [hook]).migrate


def test_a_class_with_another_default_is_alike_and_with_another_annotation_is_not() -> None:
    old = described(Types.CLASS(define(("name", str), ("price", int))))
    assert compatible(old, described(Types.CLASS(define(("name", str), ("price", int, 3))))) == Verdict()
    assert compatible(old, described(Types.CLASS(define(("name", str), ("price", Any))))).migrate


def test_values_that_become_declared_are_checked_one_by_one() -> None:
    convert = converter(described(None), described(INT))
    assert convert is not None
    assert convert(3) == 3
    with pytest.raises(TypeMismatchError, match="got 'x'"):
        convert("x")


def test_kinds_scopes_and_map_keys_do_not_change() -> None:
    old = described(INT, kind="list")
    assert "the kind of a state can't change" in compatible(old, described(INT)).refusal
    assert "the kind of a state can't change" in compatible(old, described(INT, kind="list", scope=OPERATOR)).refusal
    assert "the kind of a state can't change" in compatible(old, described(INT, kind="list", namespaced=True)).refusal
    before = described(INT, kind="map", map_key_type=type_to_text(INT))
    now = described(INT, kind="map", map_key_type=type_to_text(LONG))
    assert "from INT to LONG" in compatible(before, now).refusal


def test_a_time_to_live_may_be_switched_on_and_off_and_changed() -> None:
    kept, expiring = described(INT), described(INT, ttl_ms=1000)
    assert compatible(kept, expiring).reason == "its time to live is switched on"
    assert compatible(expiring, kept).reason == "its time to live is switched off"
    assert not compatible(expiring, described(INT, ttl_ms=5)).migrate


NUMBERS = st.sampled_from(
    [(Types.BYTE(), st.integers(-128, 127)), (INT, st.integers(-(2**31), 2**31 - 1)), (LONG, st.integers(-9, 9))]
)
NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=6)


@given(st.data())
def test_rows_keep_every_field_that_both_have(data: st.DataObject) -> None:
    numbers = {name: data.draw(NUMBERS) for name in data.draw(NAMES)}
    values = {name: data.draw(st.none() | drawn) for name, (_, drawn) in numbers.items()}
    new = {
        name: data.draw(st.sampled_from([numbers[name][0], Types.BIG_INT(), Types.BIG_DEC()]))
        if name in numbers
        else STRING
        for name in data.draw(NAMES)
    }
    old = named(**{name: info for name, (info, _) in numbers.items()})
    convert = type_converter(old, named(**new)) or (lambda value: value)
    made = convert(Row(**values))
    assert made == Row(**{name: values.get(name) for name in new})
    check = named(**new).converter()
    assert check is not None
    assert check(made) == made


# -- hooks


def test_a_hook_converts_what_no_rule_does() -> None:
    hooks = [StateMigration(STRING, int), StateMigration(DOUBLE, lambda value: round(value * 100))]
    for old, value, expected in ((STRING, "12", 12), (DOUBLE, 2.5, 250)):
        verdict = compatible(described(old), described(INT), hooks)
        assert verdict.migrate
        assert "by a hook" in verdict.reason
        convert = converter(described(old), described(INT), hooks)
        assert convert is not None
        assert convert(value) == expected
        assert convert(None) is None
    assert compatible(described(Types.BOOLEAN()), described(INT), hooks).refusal


def test_the_result_of_a_hook_is_checked() -> None:
    convert = converter(described(STRING), described(INT), [StateMigration(STRING, lambda value: value)])
    assert convert is not None
    with pytest.raises(TypeMismatchError, match="got 'x'"):
        convert("x")


@pytest.mark.parametrize("given_as", ["a copy of the class", "a row"])
def test_a_hook_for_a_class_that_has_changed(given_as: str) -> None:
    old = described(Types.CLASS(define(("name", str), ("cents", int))))
    stored = freeze(SHOP.Item("pen", 250))  # type: ignore[attr-defined]
    new = described(Types.CLASS(define(("name", str), ("euros", float))))
    before = define(("name", str), ("cents", int), name="OldItem")
    seen = []

    def migrate(value: Any) -> Any:
        seen.append(type(value))
        return SHOP.Item(value.name, value.cents / 100)  # type: ignore[attr-defined]

    old_type = Types.CLASS(before) if given_as == "a copy of the class" else named(name=STRING, cents=LONG)
    convert = converter(old, new, [StateMigration(old_type, migrate)])
    assert convert is not None
    assert convert(thaw_as_written(stored)) == SHOP.Item("pen", 2.5)  # type: ignore[attr-defined]
    assert seen == [before if given_as == "a copy of the class" else Row]


def test_a_hook_goes_before_the_rules() -> None:
    convert = converter(described(INT), described(DOUBLE), [StateMigration(INT, lambda value: value / 2)])
    assert convert is not None
    assert convert(3) == 1.5


def test_a_descriptor_remembers_its_hooks() -> None:
    descriptor = ValueStateDescriptor("n", INT)
    assert descriptor.migrations == ()
    descriptor.migrate_from(STRING, int)
    descriptor.migrate_from(DOUBLE, round)
    assert [hook.old_type for hook in descriptor.migrations] == [STRING, DOUBLE]
    with pytest.raises(TypeMismatchError, match="takes a function"):
        descriptor.migrate_from(STRING, "int")  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError, match="missing its parentheses"):
        descriptor.migrate_from(Types.STRING, int)  # type: ignore[arg-type]


def test_a_value_of_a_subclass_stays_one() -> None:
    old = described(Types.CLASS(define(("n", int))))
    define(("n", int), ("more", int), name="Sub", bases=(SHOP.Item,))  # type: ignore[attr-defined]
    stored = freeze(SHOP.Sub(1, 2))  # type: ignore[attr-defined]
    item = define(("n", Decimal), ("vip", bool, False))
    sub = define(("n", Decimal), ("vip", bool, False), ("more", int, 0), name="Sub", bases=(item,))
    convert = converter(old, described(Types.CLASS(item)))
    assert convert is not None
    made = convert(thaw_as_written(stored, class_names(Types.CLASS(item))))
    assert made == sub(Decimal(1), False, 2)
    assert type(made.n) is Decimal


def test_a_renamed_class_goes_on_by_names() -> None:
    old = described(Types.CLASS(define(("when", datetime.date), ("n", int), name="Before")))
    stored = freeze(SHOP.Before(datetime.date(2024, 1, 2), 1))  # type: ignore[attr-defined]
    del SHOP.Before  # type: ignore[attr-defined]
    after = define(("n", int), ("when", datetime.date), ("more", list[int], field(default_factory=list)), name="After")
    convert = converter(old, described(Types.CLASS(after)))
    assert convert is not None
    made = convert(thaw_as_written(stored))
    assert made == after(1, datetime.date(2024, 1, 2), [])
