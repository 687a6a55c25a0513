"""Windows: ``windows`` is the operator, ``folded`` its short path for the common case.

``merging`` tells which windows of a key grow together, ``contexts`` is what assigners, triggers and functions are told.
"""
