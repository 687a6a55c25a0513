"""Keyed state: versions, runs, overlays and timers. Nothing here knows of Spark.

Read in this order: ``key_groups`` (who owns a key), ``codec`` (what a value becomes), ``tables`` (a store and
the overlay of a step over it), ``timers``, ``run`` (the durable form), ``version`` (names and handles), ``store`` (the
cached copy in a worker), ``keyed`` (what user code holds), ``ttl``.
"""
