from dataclasses import dataclass

from pyflink.common import Row


@dataclass
class Reading:
    station: str
    degrees: float


def parse(line):
    row = Row(*line.split())
    return Reading(row[0], float(row[1]))
