"""Windows: what they are, how elements are assigned to them and when they are evaluated.

Everything here is pure logic over the contexts it is given; ``beadline.datastream.window`` re-exports the names.
"""
