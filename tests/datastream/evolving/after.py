"""The program of ``before.py`` with its types changed. It gives one tuple a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from beadline.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.datastream.evolving import given

HITS = Types.BOOLEAN() if given.refused else Types.LONG()


@dataclass(kw_only=True)
class Account:
    """One field less, two more, one wider, in another order."""

    tags: list[str] = field(default_factory=list)
    cents: Decimal
    vip: bool = False
    owner: str


class Visit(NamedTuple):
    seconds: int
    page: str
    referrer: str = "nobody"


@dataclass
class Loose:
    """Its state declares no type: it changes as it is loaded."""

    b: int
    c: int = 3


class Remember(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        get = runtime_context.get_state
        self.account = get(ValueStateDescriptor("account", Types.CLASS(Account)))
        profile = Types.ROW_NAMED(["hits", "level", "name"], [HITS, Types.STRING(), Types.STRING()])
        self.profile = get(ValueStateDescriptor("profile", profile))
        self.visits = runtime_context.get_list_state(ListStateDescriptor("visits", Types.CLASS(Visit)))
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", Types.STRING(), Types.DOUBLE()))
        text = ValueStateDescriptor("text", Types.INT())
        text.migrate_from(Types.STRING(), lambda value: int(value) * 10)
        self.text = get(text)
        self.loose = get(ValueStateDescriptor("loose", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        account, loose, profile = self.account.value(), self.loose.value(), self.profile.value()
        yield (
            value,
            (account.tags, account.cents, account.vip, account.owner),
            (profile.as_dict(), list(profile.get_fields_by_names(["hits", "level", "name"]))),
            [tuple(visit) for visit in self.visits.get()],
            dict(self.sums.items()),
            self.text.value(),
            (loose.b, loose.c),
        )


class Count(MapFunction, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("counts", Types.DOUBLE()))
        self.count = list(self.state.get())

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.count)

    def map(self, value: Any) -> Any:
        return *value, self.count


env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given.options))
env.set_parallelism(3)
numbers = env.from_source(given.source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
remembered = numbers.key_by(lambda n: n % 5, Types.INT()).process(Remember()).uid("remember").name("Remember")
with remembered.map(Count()).uid("count").execute_and_collect("evolving") as results:
    RESULTS = list(results)
