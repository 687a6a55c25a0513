from typing import NamedTuple


class Order(NamedTuple):
    customer: str
    article: str
    count: int


class Total:
    def __init__(self):
        self.count = 0
        self.cents = 0

    def add(self, count, cents):
        self.count += count
        self.cents += cents
        return self
