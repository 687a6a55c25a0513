"""Types become text and text becomes types, also when the class behind a type has changed or is gone."""

from __future__ import annotations

import collections
import datetime
import json
import pickle
import sys
import types
import typing
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import Row
from beadline.common.time import Instant
from beadline.common.type_description import readable, type_from_text, type_to_text
from beadline.common.typeinfo import (
    ClassTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    TypeInformation,
    Types,
)
from beadline.errors import ConfigurationError, TypeMismatchError

Pair = collections.namedtuple("Pair", "left right", defaults=[0])
UserId = typing.NewType("UserId", int)


class Point(NamedTuple):
    x: float
    y: float = 0.0


@dataclass
class Node:
    name: str
    parent: Optional[Node] = None  # noqa: UP045


@dataclass
class Account:
    owner: str
    cents: int
    where: Point
    tags: list[str] = field(default_factory=list)
    limits: dict[str, Optional[Decimal]] = field(default_factory=dict)  # noqa: UP045
    seen: datetime.datetime | None = None
    note: Any = None


@dataclass(frozen=True, slots=True)
class Sealed:
    id: UserId
    data: bytes
    span: tuple[datetime.date, datetime.time]
    loose: tuple[int, ...] = ()
    maybe: tuple[int, str | None] = (1, None)
    when: Instant | None = None
    either: int | str = 0


BASIC = [
    getattr(Types, name)()
    for name in [
        "STRING",
        "BYTE",
        "BOOLEAN",
        "SHORT",
        "INT",
        "LONG",
        "FLOAT",
        "DOUBLE",
        "CHAR",
        "BIG_INT",
        "BIG_DEC",
        "INSTANT",
        "SQL_DATE",
        "SQL_TIME",
        "SQL_TIMESTAMP",
        "PICKLED_BYTE_ARRAY",
    ]
] + [LocalTimeTypeInfo(kind) for kind in LocalTimeTypeInfo.TimeType]

NAMES = st.text(min_size=1, max_size=5)
ALL_TYPES = st.recursive(
    st.one_of(
        st.sampled_from(BASIC),
        st.sampled_from([Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.BASIC_ARRAY(Types.STRING())]),
        st.sampled_from([Types.CLASS(c) for c in (Point, Account, Pair, Sealed)]),
    ),
    lambda inner: st.one_of(
        inner.map(Types.LIST),
        inner.map(Types.OBJECT_ARRAY),
        inner.map(ExternalTypeInfo),
        st.builds(Types.MAP, inner, inner),
        st.lists(inner, max_size=4).map(Types.TUPLE),
        st.lists(inner, max_size=4).map(Types.ROW),
        st.dictionaries(NAMES, inner, min_size=1, max_size=4).map(
            lambda fields: Types.ROW_NAMED(list(fields), list(fields.values()))
        ),
    ),
    max_leaves=6,
)


@given(ALL_TYPES)
def test_every_type_comes_back_from_its_text(info: TypeInformation) -> None:
    text = type_to_text(info)
    again = type_from_text(text)
    assert again == info
    assert type_to_text(again) == text  # names of fields too, which do not count for equality
    assert readable(text)


def test_text_is_compact_json_and_stable() -> None:
    row = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    assert type_to_text(row) == '{"row":[["name","STRING"],["age","INT"]]}'
    assert type_to_text(Types.MAP(Types.STRING(), Types.LIST(Types.LONG()))) == '{"map":["STRING",{"list":"LONG"}]}'
    assert json.loads(type_to_text(Types.CLASS(Point))) == {
        "class": f"{__name__}:Point",
        "kind": "named tuple",
        "fields": [["x", "DOUBLE"], ["y", "DOUBLE", 1]],
    }


def test_no_declared_type_is_no_text() -> None:
    assert type_to_text(Types.PICKLED_BYTE_ARRAY()) == ""
    assert type_from_text("") == Types.PICKLED_BYTE_ARRAY()


@pytest.mark.parametrize(
    ("info", "shown"),
    [
        (Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()]), "ROW<name STRING, age INT>"),
        (Types.ROW([Types.STRING(), Types.LIST(Types.INT())]), "ROW<STRING, LIST<INT>>"),
        (Types.MAP(Types.STRING(), Types.PICKLED_BYTE_ARRAY()), "MAP<STRING, PICKLED_BYTE_ARRAY>"),
        (Types.PICKLED_BYTE_ARRAY(), "PICKLED_BYTE_ARRAY"),
        (Types.CLASS(Point), f"{__name__}.Point<x DOUBLE, y DOUBLE>"),
    ],
)
def test_readable(info: TypeInformation, shown: str) -> None:
    assert readable(type_to_text(info)) == shown


@pytest.mark.parametrize("text", ["{", '"NO_SUCH"', '{"no_such":"INT"}', "[1]", '{"row":7}', '{"class":"a:B"}'])
def test_text_that_describes_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="newer one may have written it"):
        type_from_text(text)


# -- classes


def test_types_of_fields_come_from_annotations() -> None:
    assert {f.name: (readable(type_to_text(f.type)), f.default) for f in Types.CLASS(Account).fields} == {
        "owner": ("STRING", False),
        "cents": ("LONG", False),
        "where": (f"{__name__}.Point<x DOUBLE, y DOUBLE>", False),
        "tags": ("LIST<STRING>", True),
        "limits": ("MAP<STRING, BIG_DEC>", True),
        "seen": ("LOCAL_DATE_TIME", True),
        "note": ("PICKLED_BYTE_ARRAY", True),
    }
    assert [readable(type_to_text(f.type)) for f in Types.CLASS(Sealed).fields] == [
        "LONG",
        "PRIMITIVE_ARRAY<BYTE>",
        "TUPLE<LOCAL_DATE, LOCAL_TIME>",
        "PICKLED_BYTE_ARRAY",
        "PICKLED_BYTE_ARRAY",
        "INSTANT",
        "PICKLED_BYTE_ARRAY",
    ]


def test_a_named_tuple_without_annotations_has_any_objects() -> None:
    assert readable(type_to_text(Types.CLASS(Pair))) == (
        f"{__name__}.Pair<left PICKLED_BYTE_ARRAY, right PICKLED_BYTE_ARRAY>"
    )


def test_a_class_within_itself_ends_in_any_object() -> None:
    assert readable(type_to_text(Types.CLASS(Node))) == f"{__name__}.Node<name STRING, parent PICKLED_BYTE_ARRAY>"


def test_annotations_as_text_mean_the_usual_without_their_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has the script's classes but not what the script imported."""
    bare = types.ModuleType("bare_script")
    monkeypatch.setitem(sys.modules, "bare_script", bare)
    names = {"a": "Optional[int]", "b": "List[Decimal]", "c": "datetime", "d": "datetime.date", "e": "NoSuchThing"}
    made = type("Made", (), {"__annotations__": names, "__module__": "bare_script"})
    assert [readable(type_to_text(f.type)) for f in Types.CLASS(dataclass(made)).fields] == [
        "LONG",
        "LIST<BIG_DEC>",
        "LOCAL_DATE_TIME",
        "LOCAL_DATE",
        "PICKLED_BYTE_ARRAY",
    ]


def _loaded(monkeypatch: pytest.MonkeyPatch, defaults: dict[str, Any] | None = None, **fields: Any) -> type:
    """A class ``shop.Item`` with these fields, loaded in place of an older one."""
    module = types.ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", module)
    module.Item = dataclass(type("Item", (), {"__annotations__": fields, "__module__": "shop", **(defaults or {})}))  # type: ignore[attr-defined]
    return module.Item  # type: ignore[no-any-return,attr-defined]


def test_a_loaded_class_with_the_same_fields_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    item = _loaded(monkeypatch, name=str, price=int)
    assert type_from_text(type_to_text(Types.CLASS(item))).cls is item  # type: ignore[attr-defined]


def test_a_class_with_other_defaults_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = type_to_text(Types.CLASS(_loaded(monkeypatch, name=str, price=int)))
    changed = _loaded(monkeypatch, {"price": 3}, name=str, price=int)
    assert type_to_text(Types.CLASS(changed)) != text
    found = type_from_text(text)
    assert found.cls is changed  # type: ignore[attr-defined]
    assert type_to_text(found) == text


def test_a_class_with_other_fields_is_described_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    text = type_to_text(Types.CLASS(_loaded(monkeypatch, name=str, price=int)))
    _loaded(monkeypatch, name=str, price=float)
    info = type_from_text(text)
    assert isinstance(info, ClassTypeInfo)
    assert info.cls is None
    assert readable(text) == "shop.Item<name STRING, price LONG>"
    assert type_to_text(info) == text


def test_a_class_that_is_gone_gives_rows_and_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    text = type_to_text(Types.CLASS(_loaded(monkeypatch, name=str, price=int)))
    monkeypatch.delitem(sys.modules, "shop")
    convert = type_from_text(text).converter()
    assert convert is not None
    assert convert({"name": "pen", "price": 3}) == Row(name="pen", price=3)
    assert "shop" not in sys.modules
    assert "this" not in sys.modules
    type_from_text('{"class":"this:Zen","kind":"dataclass","fields":[["a","INT"]]}')
    assert "this" not in sys.modules


def test_converter_of_a_class_checks_fields_and_keeps_instances() -> None:
    convert = Types.CLASS(Point).converter()
    point = Point(1.0, 2.0)
    assert convert(point) is point
    assert convert(Point(1, None)) == Point(1.0, None)  # type: ignore[arg-type]
    assert type(convert(Point(1, 2)).x) is float
    with pytest.raises(TypeMismatchError, match=r"field 'y'.*got 'far'"):
        convert(Point(1.0, "far"))  # type: ignore[arg-type]


def test_converter_of_a_class_takes_rows_and_dicts_by_name() -> None:
    convert = Types.CLASS(Account).converter()
    made = convert({"where": {"x": 3}, "cents": 5, "owner": "ann"})
    assert made == Account("ann", 5, Point(3.0, 0.0))
    assert convert(Row(owner="ann", cents=5, where=(3, 0))) == made
    with pytest.raises(TypeMismatchError, match="owner"):
        convert({"cents": 5})
    with pytest.raises(TypeMismatchError, match="Account"):
        convert("ann")


def test_converter_changes_a_copy() -> None:
    given_point = Account("ann", 5, Point(1.0), tags=("a",))  # type: ignore[arg-type]
    converted = Types.CLASS(Account).converter()(given_point)
    assert converted.tags == ["a"]
    assert given_point.tags == ("a",)
    frozen = Sealed(UserId(1), bytearray(b"x"), (datetime.date(2024, 1, 2), datetime.time(3)))  # type: ignore[arg-type]
    assert Types.CLASS(Sealed).converter()(frozen).data == b"x"


@pytest.mark.parametrize("cls", [int, dict, "Point", Point(1.0), Types])
def test_other_classes_are_refused(cls: Any) -> None:
    with pytest.raises(ConfigurationError, match="takes a dataclass or a named tuple"):
        Types.CLASS(cls)


def test_an_instance_instead_of_its_class_gets_a_hint() -> None:
    with pytest.raises(ConfigurationError, match=r"write Types\.CLASS\(Point\)"):
        Types.CLASS(Point(1.0))  # type: ignore[arg-type]


def test_class_types_are_pickled_with_their_fields() -> None:
    info = Types.CLASS(Account)
    assert pickle.loads(pickle.dumps(info)) == info
    assert info.held() == info
