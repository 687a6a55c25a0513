"""Classes, enums, dataclasses and functions of the script itself, as elements, keys' sources and state values."""

from dataclasses import dataclass, field
from enum import Enum

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, MapFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

LIMIT = 3


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Bead:
    colour: Colour
    size: int

    def label(self):
        return f"{self.colour.name.lower()}-{self.size}"


@dataclass
class String:
    beads: list = field(default_factory=list)

    def add(self, bead):
        self.beads.append(bead)
        return self

    def __str__(self):
        return " ".join(bead.label() for bead in self.beads)


class Plain:
    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return f"<Plain {self.number}>"


def is_large(bead):
    return bead.size >= LIMIT


class Thread(KeyedProcessFunction):
    def open(self, runtime_context):
        self.string = runtime_context.get_state(ValueStateDescriptor("string", Types.PICKLED_BYTE_ARRAY()))
        self.plain = runtime_context.get_list_state(ListStateDescriptor("plain", Types.PICKLED_BYTE_ARRAY()))
        self.by_size = runtime_context.get_map_state(
            MapStateDescriptor("by size", Types.INT(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        string = self.string.value() or String()
        self.string.update(string.add(value))
        self.plain.add(Plain(value.size))
        self.by_size.put(value.size, value)
        yield string
        yield list(self.plain.get()), [self.by_size.get(size).label() for size in sorted(self.by_size.keys())]


class Grow(MapFunction):
    def __init__(self, by):
        self.by = by

    def map(self, value):
        return Bead(value.colour, value.size + self.by)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    beads = env.from_collection([Bead(Colour.RED, 1), Bead(Colour.BLUE, 2), Bead(Colour.RED, 3), Bead(Colour.RED, 5)])
    beads.print("bead")
    beads.map(Bead.label).print("label")
    beads.filter(is_large).map(Grow(10)).print("grown")
    beads.rebalance().map(lambda b: Plain(b.size * LIMIT)).rebalance().print("plain")
    beads.key_by(lambda b: b.colour.name).process(Thread()).print("string")
    beads.key_by(lambda b: b.size > 2).reduce(lambda a, b: a if a.size > b.size else b).map(str).print("largest")
    env.execute("classes of the script")
