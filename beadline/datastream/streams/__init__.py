"""The kinds of streams that a ``DataStream`` turns into, and what they are made of.

PyFlink has their classes in ``data_stream``, and programs import them from there or from ``beadline.datastream``.
``aggregations`` and ``with_state`` are functions that streams bring along, ``refusals`` says which settings they lack.
"""
