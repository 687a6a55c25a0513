"""Where checkpoints are kept: ``storage`` says what a place for them does, ``memory`` and ``file_system`` are the two.

``publishing`` makes one appear, ``durable`` brings segments to where they last and checks them. ``storage`` also knows
who needs which file.
"""
