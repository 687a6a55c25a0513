"""Records on their way from operator to operator.

``output`` is where results go. ``writer`` and ``gate`` are the two ends of a channel, ``rows`` is what travels between
them.
"""
