"""The RocksDB store: working state on the worker's local disk, for state larger than memory.

``encoding`` says how an entry becomes a row, ``tables`` and ``timers`` read rows under the overlays of a step,
``writing`` turns changes into rows, ``folders`` says whose files are where, ``database`` opens RocksDB within its
limits, ``store`` puts them together.
Nothing here is durable. The segments are: a lost or outdated database is built again from them.
"""
