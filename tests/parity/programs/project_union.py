"""project on tuples, union of two and of three streams, and of a stream with itself keyed."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    type_info = Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE(), Types.BOOLEAN()])
    first = env.from_collection([("a", 1, 0.5, True), ("b", 2, 1.5, False)], type_info=type_info)
    second = env.from_collection([("c", 3, 2.5, True), ("a", 4, 3.5, True)], type_info=type_info)
    third = env.from_collection([("b", 5, 4.5, False)], type_info=type_info)

    first.project(0, 2).print("project-0-2")
    first.project(3, 1, 0).print("project-3-1-0")
    first.project(1).print("project-1")
    first.key_by(lambda v: v[0]).project(1, 0).print("project-keyed")

    first.union(second).print("union-2")
    first.union(second, third).project(0, 1).print("union-3")
    first.union(second, third).key_by(lambda v: v[0]).sum(1).map(lambda v: v[0]).print("union-keyed")
    first.map(lambda v: v[0]).union(third.map(lambda v: v[0].upper())).print("union-mapped")
    first.key_by(lambda v: v[0]).union(second.key_by(lambda v: v[1])).map(lambda v: v[1]).print("union-of-keyed")
    env.execute("project and union")
