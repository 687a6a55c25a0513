"""The heap store: working state in dictionaries of the worker.

``store`` keeps it between steps, ``tables`` is a state and the overlay that a step writes over it, ``timers`` are the
timers. The files of :mod:`beadline.state.rocks` have the same names, and its tables the same overlays.
"""
