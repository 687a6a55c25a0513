"""One driver per job: who may write its checkpoints, and whether that driver is alive.

``lease`` is the right to write, with its proof. ``process`` tells processes apart and has their sign of life, and
``holder`` puts them together.
"""
