"""A declared type acts where a value leaves its operator.

PyFlink passes a value as it is between two Python functions that it has chained, so that the same program gives other
values with other chains. Beadline converts there too what fits; the lines here are those where PyFlink does so.
"""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

ROW = Types.ROW_NAMED(["number", "name"], [Types.FLOAT(), Types.STRING()])


def show(row):
    return f"{row[0]} {hasattr(row, '_fields')}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)

    def floats():
        return env.from_collection([0.1, 0.5]).map(lambda v: v, output_type=Types.FLOAT())

    def rows():
        return env.from_collection([0.1]).map(lambda v: Row(v, "x"), output_type=ROW)

    env.from_collection([0.1, 0.5], type_info=Types.FLOAT()).map(repr).print("float-from-source")
    floats().map(repr).disable_chaining().print("float-unchained")
    floats().rebalance().map(repr).print("float-exchanged")
    floats().key_by(lambda v: 0).map(repr).print("float-keyed")
    rows().rebalance().map(show).print("row-exchanged")
    rows().key_by(lambda r: r[1]).map(show).print("row-keyed")
    # Where a stream has two consumers there is no chain.
    shared = rows()
    shared.map(show).print("row-shared")
    shared.map(show).print("row-shared")
    env.execute("types across exchanges")
