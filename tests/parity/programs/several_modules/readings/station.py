class Station:
    def __init__(self, name):
        self.name = name

    def describe(self):
        from .digits import DIGITS

        return f"station {self.name} with {DIGITS} digit"
