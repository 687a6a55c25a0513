"""map, flat_map and filter, each as a lambda, a function and a class."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import FilterFunction, FlatMapFunction, MapFunction


def shout(word):
    return word.upper() + "!"


def letters(word):
    yield from word


def is_short(word):
    return len(word) <= 3


class Prefix(MapFunction):
    def __init__(self, prefix):
        self.prefix = prefix

    def map(self, value):
        return self.prefix + value


class Repeat(FlatMapFunction):
    def flat_map(self, value):
        for i in range(len(value) % 3):
            yield value, i


class StartsWith(FilterFunction):
    def __init__(self, letter):
        self.letter = letter

    def filter(self, value):
        return value.startswith(self.letter)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    words = env.from_collection(["oak", "ash", "birch", "beech", "elm", "yew", "alder"], type_info=Types.STRING())

    words.map(lambda w: len(w)).print("map-lambda")
    words.map(shout, output_type=Types.STRING()).print("map-function")
    words.map(Prefix("tree:")).print("map-class")

    words.flat_map(lambda w: w.split("e")).print("flat-map-lambda")
    words.flat_map(letters, output_type=Types.STRING()).print("flat-map-function")
    words.flat_map(Repeat(), output_type=Types.TUPLE([Types.STRING(), Types.INT()])).print("flat-map-class")
    words.flat_map(lambda w: []).print("flat-map-nothing")

    words.filter(lambda w: "e" in w).print("filter-lambda")
    words.filter(is_short).print("filter-function")
    words.filter(StartsWith("b")).print("filter-class")

    chained = words.filter(is_short).map(shout).flat_map(lambda w: [w, w[::-1]]).map(lambda w: (w, len(w)))
    chained.print("chained")
    env.execute("map, flat_map and filter")
