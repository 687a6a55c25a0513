"""When checkpoints are taken, and what becomes of each. No threads, no clock, no I/O: events in, actions out.

``coordinator`` is the state machine and ``actions`` is what it tells the outside to do. It asks ``schedule`` (when the
clock wants the next one) and ``tolerance`` (how many may fail), and keeps ``retained`` (those to go back to) and
``statistics``. ``reasons`` says why one did not complete.
"""
