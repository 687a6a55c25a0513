import statistics

from pyflink.datastream import MapFunction


class Label(MapFunction):
    def map(self, value):
        return f"{value[0]}: {value[1]} F, mean {statistics.mean([value[1]])}"
