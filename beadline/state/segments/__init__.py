"""The durable form of keyed state, whatever the backend: immutable segments, and the handles that name them.

``segment`` is the format, ``version`` names versions and handles. ``files`` and ``drafts`` read and write them,
``merging`` puts several together, ``slicing`` cuts that work into short pieces.
"""
