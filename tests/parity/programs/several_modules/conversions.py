import json
import os

from pyflink.datastream.functions import MapFunction, RuntimeContext

HERE = os.path.dirname(os.path.abspath(__file__))


class ToFahrenheit(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        with open(os.path.join(HERE, "scale.json")) as file:
            self.scale = json.load(file)

    def map(self, value):
        return value[0], value[1] * self.scale["factor"] + self.scale["offset"]
