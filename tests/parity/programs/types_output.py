"""The printed form of every type that a function's output can declare."""

import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.common.time import Instant
from pyflink.datastream import StreamExecutionEnvironment

CASES = {
    "string": (Types.STRING(), ["a", "", "two words", "\u00fc\u20ac"]),
    "byte": (Types.BYTE(), [1, -128]),
    "boolean": (Types.BOOLEAN(), [True, False]),
    "short": (Types.SHORT(), [1, -32768]),
    "int": (Types.INT(), [0, 2**31 - 1, -(2**31)]),
    "long": (Types.LONG(), [1, 2**63 - 1]),
    "float": (Types.FLOAT(), [1.0, 0.1, 1e10, 1e-5, 123456.789, 16777217.0, float("nan"), float("-inf")]),
    "double": (Types.DOUBLE(), [1.0, 0.1, 9999999.0, 1e7, 1e-3, 1e-4, 1e300, 2 / 3]),
    "big_dec": (Types.BIG_DEC(), [Decimal("1.50"), Decimal("-12345678901234567890.123456789")]),
    "instant": (Types.INSTANT(), [Instant.of_epoch_milli(1709210096789)]),
    "date": (Types.SQL_DATE(), [datetime.date(2024, 2, 29)]),
    "time": (Types.SQL_TIME(), [datetime.time(12, 34, 56, 789000)]),
    "timestamp": (Types.SQL_TIMESTAMP(), [datetime.datetime(2024, 2, 29, 12, 34, 56, 789123)]),
    "pickled": (Types.PICKLED_BYTE_ARRAY(), [(1, "a"), {"k": [1]}, None, 1.5, "text", Row(1, None)]),
    "row": (Types.ROW([Types.INT(), Types.STRING()]), [Row(1, "a"), Row(2, None)]),
    "row_named": (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), [Row(a=1, b="x"), Row(2, "y")]),
    "tuple": (Types.TUPLE([Types.INT(), Types.STRING(), Types.FLOAT(), Types.BOOLEAN()]), [(1, "a", 0.1, True)]),
    "tuple_nested": (
        Types.TUPLE([Types.TUPLE([Types.STRING(), Types.DOUBLE()]), Types.ROW([Types.INT(), Types.STRING()])]),
        [(("a", 0.5), Row(1, "z"))],
    ),
    "list": (Types.LIST(Types.INT()), [[1, 2, 3], []]),
    "list_of_tuples": (Types.LIST(Types.TUPLE([Types.STRING(), Types.INT()])), [[("a", 1), ("b", 2)]]),
    "map": (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}, {"a": 1, "b": 2}, {}]),
    "tuple_collections": (
        Types.TUPLE(
            [
                Types.LIST(Types.INT()),
                Types.MAP(Types.STRING(), Types.INT()),
                Types.PRIMITIVE_ARRAY(Types.INT()),
                Types.BASIC_ARRAY(Types.STRING()),
                Types.OBJECT_ARRAY(Types.STRING()),
            ]
        ),
        [([1, 2], {"a": 1}, [3, 4], ["x", "y"], ["p", "q"])],
    ),
    "row_collections": (
        Types.ROW(
            [
                Types.LIST(Types.INT()),
                Types.MAP(Types.STRING(), Types.INT()),
                Types.PRIMITIVE_ARRAY(Types.INT()),
                Types.BASIC_ARRAY(Types.STRING()),
                Types.PICKLED_BYTE_ARRAY(),
                Types.BOOLEAN(),
                Types.SQL_DATE(),
                Types.BIG_DEC(),
            ]
        ),
        [Row([1, 2], {"a": 1}, [3, 4], ["x", "y"], {"any": 1}, True, datetime.date(2024, 2, 29), Decimal("1.50"))],
    ),
}

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for name, (type_info, values) in CASES.items():
        env.from_collection(values).map(lambda v: v, output_type=type_info).print(name)
    env.execute("types of outputs")
