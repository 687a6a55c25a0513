"""The kinds of streams that a ``DataStream`` turns into, and what they are made of.

PyFlink has their classes in ``data_stream``, and programs import them from there or from ``beadline.datastream``.
``functions`` are those that streams bring along, ``operator_settings`` says which settings they have or lack.
"""
