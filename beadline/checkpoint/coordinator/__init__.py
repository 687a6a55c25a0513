"""When checkpoints are taken, and what becomes of each. No threads, no clock, no I/O: events in, actions out.

``coordinator`` is the state machine, ``parts`` is what it is made of, ``actions`` is what it tells the outside to do,
and ``statistics`` is for people.
"""
