"""from_collection with declared types: numbers become text, integers wrap (which Beadline does on demand only)."""

from decimal import Decimal

from pyflink.common import Configuration, Row, Types
from pyflink.datastream import StreamExecutionEnvironment

COLLECTIONS = [
    ("text", Types.STRING(), ["a", 1, 2.5, True, Decimal("1.50"), -7]),
    ("int", Types.INT(), [1, 2**31, -(2**31) - 1, 2**40 + 3]),
    ("short", Types.SHORT(), [40000, -40000]),
    ("byte", Types.BYTE(), [200, -129]),
    ("tuple", Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a"), (2**32 + 5, 2)]),
    ("row", Types.ROW([Types.INT(), Types.STRING()]), [Row(1, "a"), Row(2**31, 2)]),
]


def tell(value):
    return f"{type(value).__name__} {value!r}"


def main():
    configuration = Configuration()
    configuration.set_string("beadline.types.lenient", "true")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    for name, type_info, elements in COLLECTIONS:
        env.from_collection(elements, type_info).map(tell, Types.STRING()).print(name)
    anything = Types.ROW([Types.INT(), Types.PICKLED_BYTE_ARRAY()])
    mixed = env.from_collection([(1, {"a": 1}), (2, None), (3, "x"), (4, [b"y"])])
    mixed.map(lambda value: Row(value[0], value[1]), anything).print("anything")
    env.execute("collection types")
    for type_info, wrong in [(Types.INT(), "a"), (Types.INT(), 1.5), (Types.LONG(), 2**63), (Types.DOUBLE(), "1")]:
        try:
            env.from_collection([wrong], type_info).print()
            env.execute()
            print("taken", repr(wrong))
        except Exception:
            print("refused", repr(wrong))


if __name__ == "__main__":
    main()
