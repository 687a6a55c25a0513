"""The printed form of every type that from_collection can declare, straight from the source."""

import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.common.time import Instant
from pyflink.datastream import StreamExecutionEnvironment

CASES = {
    "string": (Types.STRING(), ["a", "", "two words", "\u00fc\u20ac", "(1,2)"]),
    "byte": (Types.BYTE(), [1, -128, 127]),
    "boolean": (Types.BOOLEAN(), [True, False]),
    "short": (Types.SHORT(), [1, -32768]),
    "int": (Types.INT(), [0, 2**31 - 1, -(2**31)]),
    "long": (Types.LONG(), [1, 2**63 - 1, -(2**63)]),
    "float": (Types.FLOAT(), [1.0, 0.1, 1e10, 1e-5, 123456.789, 16777217.0, float("nan"), float("inf")]),
    "double": (Types.DOUBLE(), [1.0, 0.1, 9999999.0, 1e7, 1e-3, 1e-4, 1e300, -0.0, 2 / 3, float("-inf")]),
    "big_dec": (Types.BIG_DEC(), [Decimal("1.50"), Decimal("-12345678901234567890.123456789"), Decimal("0")]),
    "instant": (Types.INSTANT(), [Instant.of_epoch_milli(1709210096789), Instant.of_epoch_milli(0)]),
    "date": (Types.SQL_DATE(), [datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)]),
    "time": (Types.SQL_TIME(), [datetime.time(12, 34, 56, 789000), datetime.time(0, 0)]),
    "timestamp": (
        Types.SQL_TIMESTAMP(),
        [datetime.datetime(2024, 2, 29, 12, 34, 56, 789123), datetime.datetime(2024, 1, 2)],
    ),
    "row": (Types.ROW([Types.INT(), Types.STRING()]), [Row(1, "a"), Row(2, None), (3, "c")]),
    "row_named": (
        Types.ROW_NAMED(["number", "name"], [Types.INT(), Types.STRING()]),
        [Row(name="b", number=1), Row(2, "c"), {"number": 3, "name": "d"}],
    ),
    "row_nulls": (
        Types.ROW([Types.INT(), Types.DOUBLE(), Types.STRING(), Types.SQL_DATE(), Types.BIG_DEC(), Types.BOOLEAN()]),
        [Row(None, None, None, None, None, None)],
    ),
    "tuple": (Types.TUPLE([Types.INT(), Types.STRING(), Types.BOOLEAN()]), [(1, "a", True), (2, "", False)]),
    "tuple_nested": (
        Types.TUPLE([Types.TUPLE([Types.STRING(), Types.DOUBLE()]), Types.ROW([Types.INT(), Types.STRING()])]),
        [(("a", 0.5), Row(1, "z"))],
    ),
    "row_nested": (
        Types.ROW([Types.TUPLE([Types.STRING(), Types.DOUBLE()]), Types.ROW_NAMED(["x"], [Types.INT()])]),
        [Row(("a", 0.5), Row(x=1))],
    ),
    "tuple_collections": (
        Types.TUPLE(
            [
                Types.LIST(Types.INT()),
                Types.MAP(Types.STRING(), Types.INT()),
                Types.PRIMITIVE_ARRAY(Types.INT()),
                Types.BASIC_ARRAY(Types.STRING()),
            ]
        ),
        [([1, 2], {"a": 1}, [3, 4], ["x", "y"])],
    ),
    "tuple_time": (
        Types.TUPLE([Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.BIG_DEC(), Types.FLOAT()]),
        [(datetime.date(2024, 2, 29), datetime.time(1, 2, 3), datetime.datetime(2024, 2, 29, 1), Decimal("1.5"), 0.1)],
    ),
    "map": (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}, {"a": 1, "b": 2}, {}]),
}

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for name, (type_info, values) in CASES.items():
        env.from_collection(values, type_info=type_info).print(name)
    untyped = ["text", 1, 1.5, None, True, (1, "a"), [1, 2], {"k": "v"}, Row(1, "a"), Row(x=1), Decimal("2.0")]
    env.from_collection(untyped).print("untyped")
    env.execute("types of sources")
