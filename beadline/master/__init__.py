"""The driver's side: runs a job over an engine, from its start to its end.

- ``job``: the job master, one thread for each job
- ``engine``: what it needs of whatever runs its tasks; ``spark`` and ``local`` are the two kinds
- ``shipping``: what workers need of the user's program
- ``snapshots``: checkpoints, savepoints, sinks, and where a job lives
- ``upkeep``: what holds after the last sealed step, sealing, merging
- ``upgrade``: starting from a snapshot of another version of the program
"""
