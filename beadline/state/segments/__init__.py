"""The durable form of keyed state, whatever the backend: immutable segments, and the handles that name them.

``segment`` is the format, ``version`` names versions and handles and cuts the work on them into short pieces.
``files`` and ``drafts`` read and write segments, ``merging`` puts several together.
"""
