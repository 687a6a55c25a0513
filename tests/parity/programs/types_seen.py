"""What a Python function gets after a value of a declared type has crossed an exchange."""

import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.common.time import Instant
from pyflink.datastream import StreamExecutionEnvironment

CASES = {
    "string": (Types.STRING(), ["a", ""]),
    "byte": (Types.BYTE(), [-128]),
    "boolean": (Types.BOOLEAN(), [True]),
    "int": (Types.INT(), [7]),
    "long": (Types.LONG(), [2**63 - 1]),
    "float": (Types.FLOAT(), [1.0, 0.1, 1e-5, 123456.789, 16777217.0]),
    "double": (Types.DOUBLE(), [0.1, 1e300, 3]),
    "big_dec": (Types.BIG_DEC(), [Decimal("1.50")]),
    "instant": (Types.INSTANT(), [Instant.of_epoch_milli(1709210096789)]),
    "date": (Types.SQL_DATE(), [datetime.date(2024, 2, 29)]),
    "time": (Types.SQL_TIME(), [datetime.time(12, 34, 56, 789000)]),
    "timestamp": (Types.SQL_TIMESTAMP(), [datetime.datetime(2024, 2, 29, 12, 34, 56, 789123)]),
    "pickled": (Types.PICKLED_BYTE_ARRAY(), [(1, "a"), {"k": [1]}, [None]]),
    "row": (Types.ROW([Types.INT(), Types.FLOAT()]), [Row(1, 0.1), Row(2, None)]),
    "row_named": (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), [Row(b="x", a=1), Row(2, "y")]),
    "row_nested": (
        Types.ROW([Types.TUPLE([Types.STRING(), Types.FLOAT()]), Types.ROW_NAMED(["x"], [Types.INT()])]),
        [Row(("a", 0.1), Row(1))],
    ),
    "tuple": (Types.TUPLE([Types.INT(), Types.FLOAT(), Types.STRING()]), [(1, 0.1, "a"), (2, 0.5, "b")]),
    "list": (Types.LIST(Types.FLOAT()), [[0.1, 2.0], []]),
    "map": (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1, "b": 2}]),
    "primitive_array": (Types.PRIMITIVE_ARRAY(Types.INT()), [[1, 2, 3], [4]]),
    "byte_array": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"abc"]),
    "basic_array": (Types.BASIC_ARRAY(Types.STRING()), [["a", "b", None]]),
    "object_array": (Types.OBJECT_ARRAY(Types.TUPLE([Types.INT(), Types.STRING()])), [[(1, "a"), (2, "b")]]),
}


def describe(value):
    return f"{type(value).__name__} {value!r}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for name, (type_info, values) in CASES.items():
        sent = env.from_collection(values).map(lambda v: v, output_type=type_info)
        sent.rebalance().map(describe, output_type=Types.STRING()).print(name)
    env.execute("types seen by functions")
