"""The driver's side: runs a job over an engine, from its start to its end.

On top is the life of a job: ``definition`` (what it is), ``job`` (its thread), ``life`` (the states), ``running`` (what
follows from each of the ``events``), ``execution`` and ``stepping`` (steps), ``failures``, ``restoring``, ``ending``.

- ``client``: a job as its client and its process see it
- ``engines`` and ``spark``: what runs the tasks
- ``reporting``: what people hear of it
- ``shipping``: what workers need of the user's program
- ``snapshots``: checkpoints, savepoints, sinks, and where a job lives
- ``upkeep``: what holds after the last sealed step, and how its state stays small
- ``upgrade``: starting from a snapshot of another version of the program
"""
