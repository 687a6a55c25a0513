"""One driver per job: who may write its checkpoints, and whether that driver is alive.

``lease`` is the right to write, with its proof. ``beat`` is a driver's sign of life, ``process`` tells one process from
another of the same number, ``holder`` puts them together.
"""
