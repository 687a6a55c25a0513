"""A script, modules next to it, a folder of modules without __init__.py, a late import, a data file."""

import os
import sys

from pyflink.common import Types
from pyflink.datastream import MapFunction, StreamExecutionEnvironment

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "more modules"))

import conversions
from labels import Label
from readings import parsing
from readings.station import Station


class Rounded(MapFunction):
    def map(self, value):
        from late_rounding import rounded

        return value[0], rounded(value[1])


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    lines = env.from_collection(["north 12.5", "south 20.25", "north 13.5", "west -3.75"])
    celsius = lines.map(parsing.parse).map(lambda reading: (reading.station, reading.degrees))
    fahrenheit = celsius.map(conversions.ToFahrenheit()).map(Rounded())
    labelled = fahrenheit.map(Label(), output_type=Types.STRING())
    labelled.print()
    stations = celsius.map(lambda value: Station(value[0])).key_by(lambda station: station.name)
    stations.map(lambda station: station.describe(), output_type=Types.STRING()).print()
    env.execute("several modules")


if __name__ == "__main__":
    main()
